# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spectra of A and B: eigenvalues, energies, ratio, commutator.

Given several checkpoints of a run it prints the energy ratio of each, as in
the paper's table, and draws the spectra of the last.
"""
from qbheat_mm.analysis.matrices import SCALES, learned_matrices
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.analysis.spectrum import (
    MATRICES,
    describe_predictor,
    draw_energy_ratios,
    draw_spectra,
    eigenvalues,
)
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import analysis_parser
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
    'against the other. Right: the eigenvalues in the complex plane. Random '
    'matrices, too, have full rank, complex eigenvalues and spectra that '
    'align across scales; what differs from the dotted curves was learned.')
STEPS = dict(quarter='Δ = W/4', half='Δ = W/2')


def make_tables(names: list[str], times: list[dict],
                found: list[dict]) -> list[Table]:
    """Energy ratios of all checkpoints; matrices and gaps of the last."""
    last = found[-1]
    scales = [scale for scale in SCALES if scale in last]
    across = last.get('across_scales', {})
    ratios = Table(
        'Spectrum energy ratio E(A) / E(B)',
        ['checkpoint', 'epoch', *(STEPS[scale] for scale in scales)],
        [[name, time.get('epoch', '-'), *(
            numbers[scale]['energy_ratio'] for scale in scales)]
         for name, time, numbers in zip(names, times, found)])
    matrices = Table('Learned matrices (of the last checkpoint)', [
        'matrix', 'rank', 'complex eigenvalues (share)', 'energy Σ|λ|',
        'spectral radius', 'spectral norm', '|AB − BA| / |AB|',
        'overlap of spectra across scales'])
    gaps = Table('Distance of explicit matrices from what A and B derive, '
                 '|found − derived| / |derived|',
                 ['scale', 'direction', 'distance'])
    for scale in scales:
        for name in MATRICES:
            matrix = last[scale][name]
            matrices.rows.append([
                f'{name}, {STEPS[scale]}',
                f'{matrix["rank"]} of {matrix["dims"]}',
                matrix['complex_share'], matrix['energy'],
                matrix['spectral_radius'], matrix['spectral_norm'],
                last[scale]['commutator'],
                across.get(name, {}).get('overlap', '-')])
        gaps.rows += [[STEPS[scale], name.replace('_', ' '), gap] for name, gap
                      in last[scale]['gap_to_derived'].items()]
    gaps.rows += [
        [STEPS['half'], f'{name} from two steps of W/4',
         numbers['gap_of_two_quarters']] for name, numbers in across.items()]
    return [table for table in (ratios, matrices, gaps) if table.rows]


def in_time(times: list[dict], found: list[dict]
            ) -> tuple[str, dict[int, dict]]:
    """Sort what was found in checkpoints by epoch or iteration.

    Args:
        times (list[dict]): ``epoch`` and ``iter`` of the checkpoints.
        found (list[dict]): What was found in them.

    Returns:
        tuple[str, dict[int, dict]]: Unit of time, and time to what was
        found, rising. Iterations if several different checkpoints are of one
        epoch; nothing if they don't differ in these either.
    """
    for key, unit in (('epoch', 'epoch'), ('iter', 'iteration')):
        known = [(time[key], numbers) for time, numbers in zip(times, found)
                 if isinstance(time.get(key), int)]
        first = dict(reversed(known))
        if known and all(first[time] == numbers for time, numbers in known):
            return unit, dict(sorted(first.items()))
    return '', {}


def main() -> None:
    args = analysis_parser(__doc__, images=False).parse_args()
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config)
    require_matrices(model, args.config)
    found, times = [], []
    for checkpoint in args.checkpoint:
        times.append(load_pretraining(model, checkpoint))
        found.append(describe_predictor(model.predictor))
    matrices = learned_matrices(model.predictor)
    report = Report(
        'spectrum', 'Spectra of A and B', CAPTION,
        make_tables(short_names(args.checkpoint), times, found),
        numbers=dict(checkpoints=[
            dict(checkpoint=checkpoint, epoch=time.get('epoch', '-'),
                 **numbers)
            for checkpoint, time, numbers in zip(
                args.checkpoint, times, found)]),
        source=dict(config=args.config, checkpoint=args.checkpoint))
    figures = dict(spectrum=draw_spectra(matrices))
    unit, known = in_time(times, found)
    if len(known) > 1:
        figures['energy_ratio'] = draw_energy_ratios(list(known), {
            scale: [numbers[scale]['energy_ratio']
                    for numbers in known.values()] for scale in matrices},
            unit)
    report.save(args.out, figures, {
        f'eigenvalues_{name}_{scale}': eigenvalues(found[direction]).numpy()
        for scale, found in matrices.items()
        for name, direction in MATRICES.items()})


if __name__ == '__main__':
    report_user_errors(main)
