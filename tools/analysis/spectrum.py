# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spectra of A and B: eigenvalues, energies, ratio, commutator.

Given several checkpoints of a run, also prints the energy ratio of each, as in
the paper's table. Describes and draws the matrices of the last one, next to
random ones.
"""
from qbheat_mm.analysis import spectrum
from qbheat_mm.analysis.matrices import learned_matrices
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import analysis_parser
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


def make_tables(names: list[str], metas: list[dict],
                found: list[dict], control: dict) -> list[Table]:
    """Energy ratios of all checkpoints; matrices and gaps of the last."""
    last = dict(found[-1])
    across = last.pop('across_scales', {})
    random = control.get('across_scales', {})
    ratios = Table(
        'Spectrum energy ratio E(A) / E(B)',
        ['checkpoint', 'epoch', *(spectrum.STEPS[scale] for scale in last)],
        [[name, meta.get('epoch', '-'), *(
            numbers[scale]['energy_ratio'] for scale in last)]
         for name, meta, numbers in zip(names, metas, found)])
    matrices = Table('Matrices of the last checkpoint, and random ones', [
        'matrix', 'rank', 'complex eigenvalues (share)', 'energy Σ|λ|',
        'spectral radius', 'spectral norm', '|AB − BA| / |AB|',
        'overlap of spectra across scales'])
    gaps = Table('Distance of explicit matrices from what A and B derive, '
                 '|found − derived| / |derived|',
                 ['scale', 'direction', 'distance'])
    for scale, numbers in last.items():
        for name in spectrum.MATRICES:
            for label, some, overlaps in (
                    (name, numbers, across),
                    (f'random like {name}', control[scale], random)):
                matrix = some[name]
                matrices.rows.append([
                    f'{label}, {spectrum.STEPS[scale]}',
                    f'{matrix["rank"]} of {matrix["dims"]}',
                    matrix['complex_share'], matrix['energy'],
                    matrix['spectral_radius'], matrix['spectral_norm'],
                    some['commutator'],
                    overlaps.get(name, {}).get('overlap', '-')])
        gaps.rows += [[spectrum.STEPS[scale], name.replace('_', ' '), gap]
                      for name, gap in numbers['gap_to_derived'].items()]
    gaps.rows += [
        [spectrum.STEPS['half'], f'{name} from two steps of W/4',
         numbers['gap_of_two_quarters']] for name, numbers in across.items()]
    return [table for table in (ratios, matrices, gaps) if table.rows]


def draw_ratios(metas: list[dict], found: list[dict]) -> dict:
    """Draw energy ratios over epochs, or iterations if epochs coincide."""
    for key in ('epoch', 'iter'):
        known = {meta.get(key): numbers for meta, numbers in zip(metas, found)}
        if len(known) == len(found) > 1 and None not in known:
            scales = [scale for scale in spectrum.STEPS if scale in found[0]]
            times = sorted(known)
            return dict(energy_ratio=spectrum.draw_energy_ratios(times, {
                scale: [known[time][scale]['energy_ratio'] for time in times]
                for scale in scales}, key))
    return {}


def main(argv: list[str] | None = None) -> None:
    args = analysis_parser(__doc__, images=False).parse_args(argv)
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config, linear=True)
    found, metas = [], []
    for checkpoint in args.checkpoint:
        metas.append(load_pretraining(model, checkpoint))
        found.append(spectrum.describe_predictor(model.predictor))
    matrices = learned_matrices(model.predictor)
    control = spectrum.describe_matrices(spectrum.random_like(matrices))
    report = Report(
        'spectrum', 'Spectra of A and B', CAPTION,
        make_tables(short_names(args.checkpoint), metas, found, control),
        numbers=dict(checkpoints=[
            dict(numbers, checkpoint=checkpoint, epoch=meta.get('epoch'))
            for checkpoint, meta, numbers in zip(
                args.checkpoint, metas, found)]))
    figures = dict(spectrum=spectrum.draw_spectra(matrices),
                   **draw_ratios(metas, found))
    report.save(args.out, figures, {
        f'eigenvalues_{name}_{scale}':
        spectrum.eigenvalues(of_scale[direction])
        for scale, of_scale in matrices.items()
        for name, direction in spectrum.MATRICES.items()})


if __name__ == '__main__':
    report_user_errors(main)
