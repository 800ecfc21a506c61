# Your own boxes in COCO format. What tools/prepare_boxes.py writes inherits
# from configs with this base, and sets the folder, the classes and the size.
_base_ = './coco.py'

data_root = 'data/own/'
# In the order of the categories in the annotation files
classes = ('first', 'second')
data = dict(
    data_root=data_root,
    data_prefix=dict(img='images/'),
    metainfo=dict(classes=classes))

train_dataloader = dict(
    batch_size=16,
    num_workers=8,
    dataset=dict(
        data,
        ann_file='annotations/train.json',
        # Keep images without objects.
        filter_cfg=dict(filter_empty_gt=False, min_size=1)))
val_dataloader = dict(dataset=dict(data, ann_file='annotations/val.json'))
test_dataloader = val_dataloader
val_evaluator = dict(
    ann_file=data_root + 'annotations/val.json', classwise=True)
test_evaluator = val_evaluator
