# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How good embeddings are, without training anything on them."""
from .embedding import Embeddings, embed_batches, list_images
from .encoder import Encoder
from .knn import knn_accuracy, knn_classify
from .knn_metric import KNNAccuracy
from .labelled import LabelledFolder, knn_of_folders, labelled_folder

__all__ = [
    'Embeddings', 'Encoder', 'KNNAccuracy', 'LabelledFolder',
    'embed_batches', 'knn_accuracy', 'knn_classify', 'knn_of_folders',
    'labelled_folder', 'list_images'
]
