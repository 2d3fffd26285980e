# SPDX-License-Identifier: Apache-2.0
"""Reads what the trainer Tutti writes into NumPy, and writes its data: models, logs, metrics, predictions, CTF, safetensors."""
from .ctf import Sparse, one_hot, write_ctf
from .model import Model, read_model
from .records import read_log, read_metrics, read_predictions
from .safetensors import read_safetensors, write_safetensors

__version__ = '0.1.0'
__all__ = ['Model', 'Sparse', 'one_hot', 'read_log', 'read_metrics', 'read_model', 'read_predictions', 'read_safetensors', 'write_ctf',
           'write_safetensors']
