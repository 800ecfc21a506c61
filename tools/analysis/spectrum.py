# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spectra of A and B: eigenvalues, energies, ratio, commutator.

Given several checkpoints of a run, also prints the energy ratio of each, as in
the paper's table. Describes and draws the matrices of the last one, next to
random ones.
"""
from typing import NamedTuple

from qbheat_mm.analysis import spectrum
from qbheat_mm.analysis.matrices import learned_matrices
from qbheat_mm.analysis.spectrum import MATRICES, STEPS, draw_energy_ratios
from qbheat_mm.cli.arguments import analysis_parser
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.datasets import short_names
from qbheat_mm.report import Report, Table
from qbheat_mm.trained.model import build_pretraining, load_pretraining

CAPTION = (
    'Left: sorted magnitudes of the eigenvalues of the learned matrices, '
    'which include the step (Δ·A to the right, Δ·B downwards, Δ = W/2 or '
    'W/4). Dotted: a random matrix of the same Frobenius norm (the circular '
    'law). Right: magnitudes divided by their sum, one scale against the '
    'other. Look for departures from the dotted curves; only they were '
    'learned. Full rank, complex eigenvalues and spectra that align across '
    'scales are no evidence: random matrices have all three.')


class Described(NamedTuple):
    """The matrices of one checkpoint in numbers."""
    name: str
    meta: dict  # of the checkpoint
    numbers: dict  # from spectrum.describe_predictor


def scales_of(numbers: dict) -> list[str]:
    """Return the scales that numbers describe."""
    return [scale for scale in numbers if scale in STEPS]


def ratio_table(checkpoints: list[Described]) -> Table:
    """List energy ratios of all checkpoints."""
    table = Table('Spectrum energy ratio E(A) / E(B)', ['checkpoint', 'epoch'])
    scales = scales_of(checkpoints[-1].numbers)
    table.columns += [STEPS[scale] for scale in scales]
    for name, meta, numbers in checkpoints:
        table.rows.append([name, meta.get('epoch', '-'), *(
            numbers[scale]['energy_ratio'] for scale in scales)])
    return table


def matrix_table(learned: dict, random: dict) -> Table:
    """Describe learned matrices next to random ones."""
    table = Table('Matrices of the last checkpoint, and random ones', [
        'matrix', 'rank', 'complex eigenvalues (share)', 'energy Σ|λ|',
        'spectral radius', 'spectral norm', '|AB − BA| / |AB|',
        'overlap of spectra across scales'])
    for scale in scales_of(learned):
        for name in MATRICES:
            for label, numbers in ((name, learned),
                                   (f'random like {name}', random)):
                matrix = numbers[scale][name]
                across = numbers.get('across_scales', {}).get(name, {})
                table.rows.append([
                    f'{label}, {STEPS[scale]}',
                    f'{matrix["rank"]} of {matrix["dims"]}',
                    matrix['complex_share'], matrix['energy'],
                    matrix['spectral_radius'], matrix['spectral_norm'],
                    numbers[scale]['commutator'], across.get('overlap', '-')])
    return table


def gap_table(learned: dict) -> Table:
    """List how far explicit matrices are from derived ones."""
    table = Table('Distance of explicit matrices from what A and B derive, '
                  '|found − derived| / |derived|',
                  ['scale', 'direction', 'distance'])
    for scale in scales_of(learned):
        for name, gap in learned[scale]['gap_to_derived'].items():
            table.rows.append(
                [STEPS[scale], name.replace('_', ' '), gap])
    for name, numbers in learned.get('across_scales', {}).items():
        table.rows.append([
            STEPS['half'], f'{name} from two steps of W/4',
            numbers['gap_of_two_quarters']])
    return table


def draw_ratios(checkpoints: list[Described]) -> dict:
    """Draw energy ratios over epochs, or iterations if epochs coincide."""
    for unit in ('epoch', 'iter'):
        by_time = {checkpoint.meta.get(unit): checkpoint.numbers
                   for checkpoint in checkpoints}
        if len(by_time) == len(checkpoints) > 1 and None not in by_time:
            times, ratios = sorted(by_time), {}
            for scale in scales_of(checkpoints[0].numbers):
                ratios[scale] = [by_time[time][scale]['energy_ratio']
                                 for time in times]
            return dict(energy_ratio=draw_energy_ratios(
                times, ratios, unit))
    return {}


def main(argv: list[str] | None = None) -> None:
    args = analysis_parser(__doc__, images=False).parse_args(argv)
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config, linear=True)
    checkpoints, summary = [], []
    for path, name in zip(args.checkpoint, short_names(args.checkpoint)):
        meta = load_pretraining(model, path)
        numbers = spectrum.describe_predictor(model.predictor)
        checkpoints.append(Described(name, meta, numbers))
        summary.append(dict(numbers, checkpoint=path, epoch=meta.get('epoch')))
    matrices, arrays = learned_matrices(model.predictor), {}
    for scale, directions in matrices.items():
        for name, direction in spectrum.MATRICES.items():
            arrays[f'eigenvalues_{name}_{scale}'] = spectrum.eigenvalues(
                directions[direction])
    random = spectrum.describe_matrices(spectrum.random_like(matrices))
    tables = [ratio_table(checkpoints), matrix_table(numbers, random),
              gap_table(numbers)]
    report = Report('spectrum', 'Spectra of A and B', CAPTION,
                    [table for table in tables if table.rows],
                    numbers=dict(checkpoints=summary))
    figures = dict(spectrum=spectrum.draw_spectra(matrices),
                   **draw_ratios(checkpoints))
    report.save(args.out, figures, arrays)


if __name__ == '__main__':
    report_user_errors(main)
