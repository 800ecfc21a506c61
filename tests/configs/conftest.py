import pytest

from ..helpers.shipped import (
    write_coco,
    write_folders,
    write_imagenet,
    write_own,
    write_panoptic,
)


@pytest.fixture(scope='session')
def data(tmp_path_factory):
    """Folders of a tiny ImageNet, COCO, own boxes and own folders."""
    pytest.importorskip('mmdet')
    from mmdet.datasets import CocoDataset, CocoPanopticDataset
    imagenet, coco, own, folders = map(
        tmp_path_factory.mktemp, ('imagenet', 'coco', 'own', 'folders'))
    write_imagenet(imagenet)
    write_coco(coco, CocoDataset.METAINFO['classes'])
    things = CocoPanopticDataset.METAINFO['thing_classes']
    write_panoptic(coco, CocoPanopticDataset.METAINFO['classes'], len(things))
    write_own(own)
    write_folders(folders)
    return dict(mmpretrain=imagenet, mmdet=coco, own=own, folders=folders)
