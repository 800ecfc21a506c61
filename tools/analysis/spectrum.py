# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spectra of A and B: eigenvalues, energies, ratio, commutator.

Given several checkpoints of a run it tells the energy ratio of each, as in
the paper's table, and draws the spectra of the last.
"""
import argparse

from qbheat_mm.analysis.figures.spectrum import (
    draw_energy_ratios,
    draw_spectra,
)
from qbheat_mm.analysis.matrices import learned_matrices
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.analysis.spectrum import describe_predictor, eigenvalues
from qbheat_mm.cli import report_user_errors
from qbheat_mm.cli.analysis_tool import (
    analysis_parser,
    print_tables,
    read_settings,
    write,
)
from qbheat_mm.cli.trained_model import (
    build_pretraining,
    load_pretraining,
    require_matrices,
)
from qbheat_mm.datasets.image_lists import short_names

CAPTION = (
    'Left: magnitudes of the eigenvalues of the learned matrices, sorted; the '
    'step is a part of them (Δ·A to the right, Δ·B downwards, Δ = W/2 or '
    'W/4). Dotted: what a random matrix of the same Frobenius norm has (the '
    'circular law). Middle: magnitudes divided by their sum, one scale '
    'against the other. Right: the eigenvalues in the complex plane. Full '
    'rank, complex eigenvalues and spectra aligned across scales are found in '
    'random matrices too; what differs from the dotted curves was learned.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = analysis_parser(__doc__, images=False, many=True)
    return parser.parse_args()


def ratio_table(found: list) -> Table:
    """Energy ratios by checkpoint (Table "energy-ratio")."""
    scales = [scale for scale in ('quarter', 'half') if scale in found[0][2]]
    names = dict(quarter='W/4', half='W/2')
    table = Table('Spectrum energy ratio E(A) / E(B)', [
        'checkpoint', 'epoch', *(f'Δ = {names[scale]}' for scale in scales)])
    for name, epoch, numbers in found:
        table.rows.append([name, epoch, *(
            numbers[scale]['energy_ratio'] for scale in scales)])
    return table


def matrix_table(numbers: dict) -> Table:
    """One row for each matrix of one checkpoint."""
    table = Table('Learned matrices (of the last checkpoint)', [
        'matrix', 'rank', 'complex eigenvalues (share)', 'energy Σ|λ|',
        'spectral radius', 'spectral norm', '|AB − BA| / |AB|',
        'overlap of spectra across scales'])
    for scale, step in (('quarter', 'W/4'), ('half', 'W/2')):
        if scale not in numbers:
            continue
        for name in 'AB':
            matrix = numbers[scale][name]
            across = numbers.get('across_scales', {}).get(name, {})
            table.rows.append([
                f'{name}, Δ = {step}', f'{matrix["rank"]} of {matrix["dims"]}',
                matrix['complex_share'], matrix['energy'],
                matrix['spectral_radius'], matrix['spectral_norm'],
                numbers[scale]['commutator'], across.get('overlap', '-')])
    return table


def gap_table(numbers: dict) -> Table:
    """How far explicit matrices are from the paper's derivation."""
    table = Table(
        'Distance of explicit matrices from what A and B derive, '
        '|found − derived| / |derived|', ['scale', 'direction', 'distance'])
    for scale, step in (('quarter', 'W/4'), ('half', 'W/2')):
        for name, gap in numbers.get(scale, {}).get('gap_to_derived',
                                                    {}).items():
            table.rows.append([step, name.replace('_', ' '), gap])
    for name, across in numbers.get('across_scales', {}).items():
        table.rows.append(['W/2', f'{name} from two steps of W/4',
                           across['gap_of_two_quarters']])
    return table


def in_time(metas: list[dict], numbers: list[dict]
            ) -> tuple[str, dict[int, dict]]:
    """When the checkpoints were written, as far as they know.

    Args:
        metas (list[dict]): Their ``epoch`` and ``iter``.
        numbers (list[dict]): What was found in them.

    Returns:
        tuple[str, dict[int, dict]]: What is counted, and from its count to
        what was found, rising. Iterations where several checkpoints are of
        one epoch, as in a run by iterations; nothing where these do not tell
        them apart either. Copies, as the best checkpoint is one, are one.
    """
    for key, unit in (('epoch', 'epoch'), ('iter', 'iteration')):
        known = [(meta[key], found) for meta, found in zip(metas, numbers)
                 if isinstance(meta.get(key), int)]
        first = dict(reversed(known))
        if known and all(first[time] == found for time, found in known):
            return unit, {time: first[time] for time in sorted(first)}
    return '', {}


def main() -> None:
    """Analyse the spectra."""
    args = parse_args()
    model = build_pretraining(read_settings(args), args.config)
    require_matrices(model, args.config)
    found, metas, matrices = [], [], {}
    for checkpoint, name in zip(args.checkpoint,
                                short_names(args.checkpoint)):
        metas.append(load_pretraining(model, checkpoint))
        found.append((name, metas[-1].get('epoch', '-'),
                      describe_predictor(model.predictor)))
        matrices = learned_matrices(model.predictor)
    spectra = {
        scale: dict(A=eigenvalues(m['right']), B=eigenvalues(m['down']))
        for scale, m in matrices.items()
    }
    frobenius = {
        scale: {name: found[-1][2][scale][name]['frobenius_norm']
                for name in 'AB'} for scale in matrices
    }
    tables = [ratio_table(found), matrix_table(found[-1][2]),
              gap_table(found[-1][2])]
    report = Report(
        'spectrum', 'Spectra of A and B', CAPTION,
        tables=[table for table in tables if table.rows],
        numbers=dict(
            checkpoints=[dict(checkpoint=checkpoint, epoch=epoch, **numbers)
                         for checkpoint, (_, epoch, numbers) in zip(
                             args.checkpoint, found)]),
        source=dict(config=args.config, checkpoint=args.checkpoint))
    figures = dict(spectrum=draw_spectra(spectra, frobenius))
    unit, known = in_time(metas, [numbers for _, _, numbers in found])
    if len(known) > 1:
        figures['energy_ratio'] = draw_energy_ratios(list(known), {
            scale: [numbers[scale]['energy_ratio']
                    for numbers in known.values()] for scale in matrices},
            unit)
    arrays = {f'eigenvalues_{name}_{scale}': values.numpy()
              for scale, pair in spectra.items()
              for name, values in pair.items()}
    write(args.out, report, figures, arrays)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
