"""The losses as layers, for those who like them so: `nn.functional` has what they compute."""

from __future__ import annotations

from . import functional as f
from .applied import layer

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss",
    "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PairwiseDistance",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip

L1Loss = layer("L1Loss", f.l1_loss, 2)
MSELoss = layer("MSELoss", f.mse_loss, 2)
SmoothL1Loss = layer("SmoothL1Loss", f.smooth_l1_loss, 2)
HuberLoss = layer("HuberLoss", f.huber_loss, 2)
CrossEntropyLoss = layer("CrossEntropyLoss", f.cross_entropy, 2, arrays=["weight"])
NLLLoss = layer("NLLLoss", f.nll_loss, 2, arrays=["weight"])
BCELoss = layer("BCELoss", f.binary_cross_entropy, 2, arrays=["weight"])
BCEWithLogitsLoss = layer(
    "BCEWithLogitsLoss", f.binary_cross_entropy_with_logits, 2, arrays=["weight", "pos_weight"]
)
KLDivLoss = layer("KLDivLoss", f.kl_div, 2)
PoissonNLLLoss = layer("PoissonNLLLoss", f.poisson_nll_loss, 2)
GaussianNLLLoss = layer("GaussianNLLLoss", f.gaussian_nll_loss, 3)
HingeEmbeddingLoss = layer("HingeEmbeddingLoss", f.hinge_embedding_loss, 2)
MarginRankingLoss = layer("MarginRankingLoss", f.margin_ranking_loss, 3)
CosineEmbeddingLoss = layer("CosineEmbeddingLoss", f.cosine_embedding_loss, 3)
TripletMarginLoss = layer("TripletMarginLoss", f.triplet_margin_loss, 3)
TripletMarginWithDistanceLoss = layer(
    "TripletMarginWithDistanceLoss", f.triplet_margin_with_distance_loss, 3
)
MultiMarginLoss = layer("MultiMarginLoss", f.multi_margin_loss, 2, arrays=["weight"])
MultiLabelMarginLoss = layer("MultiLabelMarginLoss", f.multilabel_margin_loss, 2)
MultiLabelSoftMarginLoss = layer(
    "MultiLabelSoftMarginLoss", f.multilabel_soft_margin_loss, 2, arrays=["weight"]
)
SoftMarginLoss = layer("SoftMarginLoss", f.soft_margin_loss, 2)
CTCLoss = layer("CTCLoss", f.ctc_loss, 4)

CosineSimilarity = layer("CosineSimilarity", f.cosine_similarity, 2)
PairwiseDistance = layer("PairwiseDistance", f.pairwise_distance, 2)
