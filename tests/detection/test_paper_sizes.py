"""Sizes of the heads beside the paper's.

`python -m pytest tests/detection/test_paper_sizes.py -s` prints the table.
"""
import pytest
from mmengine.config import Config

from qbheat_mm.analysis.model_size import build_without_memory, count

from .conftest import CONFIGS

# Table "COCO object detection results": decoder, encoder -> parameters (M)
# and MAdds (G, at 800x1333) of the head.
PAPER = {
    ('522', '285m'): (18.2, 31.1),
    ('522', '1.0g'): (18.6, 32.3),
    ('522', '3.7g'): (19.4, 34.6),
    ('211', '285m'): (8.0, 12.2),
    ('211', '1.0g'): (8.4, 13.4),
    ('211', '3.7g'): (9.2, 15.7),
}


@pytest.mark.parametrize('decoder, encoder', PAPER)
def test_size_of_the_head(decoder, encoder):
    name = f'mf-dec-{decoder}_mf-{encoder}_frozen_8xb2-500e_coco.py'
    model = build_without_memory(
        Config.fromfile(CONFIGS / 'qbheat/coco' / name))
    params, madds = count('Detection heads', model, (800, 1333))
    params, madds = params / 1e6, madds / 1e9
    paper_params, paper_madds = PAPER[decoder, encoder]
    print(f'\nMF-Dec-{decoder} on MF-{encoder}: {params:.2f}M parameters '
          f'(paper {paper_params}), {madds:.2f}G MAdds (paper {paper_madds})')
    assert params == pytest.approx(paper_params, rel=0.015)
    assert madds == pytest.approx(paper_madds, rel=0.025)
