# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Probes without steps: ridge regression, and an SVM with an RBF kernel."""
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from .features import Features

#: Maximum number of training images, since kernels grow quadratically.
MAX_IMAGES = 5000
STRENGTHS = [1e1, 1e2, 1e3, 1e4, 1e5]
COSTS = [1., 10., 100.]


class Score(NamedTuple):
    """Accuracies in percent."""
    validated: float  # in cross-validation
    tested: float


def search(classifier, grid: dict, train: np.ndarray, labels: np.ndarray,
           test: np.ndarray, test_labels: np.ndarray) -> Score:
    """Choose a classifier's setting by cross-validation, and test it."""
    best = GridSearchCV(classifier, grid, cv=3).fit(train, labels)
    return Score(100 * best.best_score_, 100 * best.score(test, test_labels))


def score_classifiers(train: np.ndarray, labels: np.ndarray, test: np.ndarray,
                      test_labels: np.ndarray) -> dict[str, Score]:
    """Score ridge regression and an SVM on standardized features (N, D)."""
    scale = StandardScaler().fit(train)
    train, test = scale.transform(train), scale.transform(test)
    gamma = 1 / train.shape[1]
    return {
        'ridge': search(RidgeClassifier(), dict(alpha=STRENGTHS),
                        train, labels, test, test_labels),
        'RBF': search(SVC(kernel='precomputed'), dict(C=COSTS),
                      rbf_kernel(train, gamma=gamma), labels,
                      rbf_kernel(test, train, gamma=gamma), test_labels)}


def choose(train: Features, labels: np.ndarray, test: Features,
           test_labels: np.ndarray) -> dict[str, float]:
    """Choose features and classifier by cross-validation, and test them.

    Returns:
        dict[str, float]: Test accuracies in percent: ``ridge`` and ``RBF``,
        on their best features, and ``top-1``, the better classifier's.
    """
    best: dict[str, Score] = {}
    for name in train:
        scores = score_classifiers(train[name], labels, test[name],
                                   test_labels)
        for classifier, score in scores.items():
            before = best.setdefault(classifier, score)
            if score.validated > before.validated:
                best[classifier] = score
    winner = max(best.values(), key=lambda score: score.validated)
    return {'ridge': best['ridge'].tested, 'RBF': best['RBF'].tested,
            'top-1': winner.tested}


def ridge(train: Features, labels: np.ndarray, test: Features,
          test_labels: np.ndarray) -> float:
    """Choose features and strength leaving one out; top-1 in percent."""
    tested = {}
    for name in train:
        model = make_pipeline(StandardScaler(), RidgeClassifierCV(STRENGTHS))
        model.fit(train[name], labels)
        tested[model[-1].best_score_] = model.score(test[name], test_labels)
    return 100 * tested[max(tested)]


def ridge_and_svm(train: Features, labels: np.ndarray, test: Features,
                  test_labels: np.ndarray) -> dict[str, float]:
    """Top-1 in percent; no SVM if no class has three images."""
    if np.bincount(labels).max() < 3:
        score = ridge(train, labels, test, test_labels)
        return {'ridge': score, 'top-1': score}
    return choose(train, labels, test, test_labels)


def ridge_or_svm(train: Features, labels: np.ndarray, test: Features,
                 test_labels: np.ndarray) -> float:
    """Top-1 in percent of the better one in cross-validation."""
    return ridge_and_svm(train, labels, test, test_labels)['top-1']
