# Boxes of cells.
_base_ = ['./retinanet.py']

classes = ('RBC', 'WBC', 'Platelets')
scale = (512, 384)

load = _base_.train_dataloader.dataset.pipeline[0]
resize = dict(type='Resize', scale=scale, keep_ratio=True)
annotations = dict(type='LoadAnnotations', with_bbox=True)
data = dict(
    data_root='data/blood/',
    data_prefix=dict(img=''),
    metainfo=dict(classes=classes))
train_dataloader = dict(
    dataset=dict(data, pipeline=[
        load, annotations, resize, dict(type='PackDetInputs')
    ]))
val_dataloader = dict(
    dataset=dict(data, ann_file='annotations/test.json', pipeline=[
        load, resize, annotations,
        dict(type='PackDetInputs', meta_keys=(
            'img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'))
    ]))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file='data/blood/annotations/test.json')
test_evaluator = val_evaluator

model = dict(bbox_head=dict(num_classes=len(classes)))
