# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What tools have in common that measure an encoder for the study."""
import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from qbheat_mm.cli.command_line import add_cfg_options


def measuring_parser(description: str) -> argparse.ArgumentParser:
    """Arguments that the study gives: see ``Probe.tool``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('--out', type=Path, required=True,
                        help='folder; gets metrics.json')
    add_cfg_options(parser)
    return parser


def write_metrics(folder: Path, metrics: Mapping[str, float]) -> None:
    """Write what the study reads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'metrics.json').write_text(json.dumps(metrics, indent=1))
