#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pytorch_models.py -- the networks of samples/ once more, in PyTorch, and the loop that times them. Run by compare_pytorch.py with the
interpreter of an environment that has PyTorch; prints one line of JSON.

Layers, parameter counts, losses and input shapes are those of the configs. A step is forward, loss, backward and an SGD update with
momentum; the batches lie ready in memory.
"""
import argparse
import json
import os
import time

import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, size, stride=1, padding=0, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups), nn.ReLU(inplace=True))


def conv_norm(inputs, outputs, size, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))


def mlp():
    sizes = [784, 2048, 2048, 2048]
    hidden = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU(inplace=True))]
    return nn.Sequential(*hidden, nn.Linear(2048, 10))


def lenet():
    return nn.Sequential(conv(1, 20, 5), nn.MaxPool2d(2), conv(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(500, 10))


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)), the shortcut a projection where the shape changes."""

    def __init__(self, body, inputs, outputs, stride):
        super().__init__()
        self.body = body
        self.shortcut = conv_norm(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def basic_block(inputs, outputs, stride):
    body = nn.Sequential(conv_norm(inputs, outputs, 3, stride), nn.ReLU(inplace=True), conv_norm(outputs, outputs, 3))
    return Residual(body, inputs, outputs, stride)


def bottleneck(inputs, middle, outputs, stride):
    body = nn.Sequential(conv_norm(inputs, middle, 1), nn.ReLU(inplace=True), conv_norm(middle, middle, 3, stride), nn.ReLU(inplace=True),
                         conv_norm(middle, outputs, 1))
    return Residual(body, inputs, outputs, stride)


def resnet20(blocks=3):
    layers, inputs = [conv_norm(3, 16, 3), nn.ReLU(inplace=True)], 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(blocks):
            layers.append(basic_block(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet50(classes=1200):
    layers, inputs = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for block in range(blocks):
            layers.append(bottleneck(inputs, middle, 4 * middle, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def alexnet():
    norm = lambda: nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2)  # PyTorch divides alpha by the window
    return nn.Sequential(conv(3, 96, 11, 4), norm(), nn.MaxPool2d(3, 2), conv(96, 256, 5, 1, 2, groups=2), norm(), nn.MaxPool2d(3, 2),
                         conv(256, 384, 3, 1, 1), conv(384, 384, 3, 1, 1, groups=2), conv(384, 256, 3, 1, 1, groups=2), nn.MaxPool2d(3, 2),
                         nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000))


def vgg16():
    layers, inputs = [], 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers.append(conv(inputs, width, 3, 1, 1))
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000))


class Inception(nn.Module):
    def __init__(self, inputs, one, reduce3, three, reduce5, five, pool):
        super().__init__()
        self.branches = nn.ModuleList([
            conv(inputs, one, 1), nn.Sequential(conv(inputs, reduce3, 1), conv(reduce3, three, 3, 1, 1)),
            nn.Sequential(conv(inputs, reduce5, 1), conv(reduce5, five, 5, 1, 2)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pool, 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def auxiliary(inputs):
    return nn.Sequential(nn.AvgPool2d(5, 3), conv(inputs, 128, 1), nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(inplace=True),
                         nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        norm = lambda: nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1)
        self.a = nn.Sequential(
            conv(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1), norm(), conv(64, 64, 1), conv(64, 192, 3, 1, 1), norm(), nn.MaxPool2d(3, 2, 1),
            Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), nn.MaxPool2d(3, 2, 1),
            Inception(480, 192, 96, 208, 16, 48, 64))
        self.b = nn.Sequential(Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
                               Inception(512, 112, 144, 288, 32, 64, 64))
        self.c = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128), nn.MaxPool2d(3, 2, 1), Inception(832, 256, 160, 320, 32, 128, 128),
            Inception(832, 384, 192, 384, 48, 128, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, 1000))
        self.aux1, self.aux2 = auxiliary(512), auxiliary(528)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        return self.c(b), self.aux1(a), self.aux2(b)


class EventClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.dense = nn.LSTM(19, 20, batch_first=True), nn.Linear(20, 3)

    def forward(self, x):
        return self.dense(self.lstm(x)[0][:, -1])


class CharacterModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.dense = nn.Embedding(65, 512), nn.LSTM(512, 512, batch_first=True), nn.Linear(512, 65)

    def forward(self, x):
        return self.dense(self.lstm(self.embedding(x))[0]).flatten(0, 1)


def cross_entropy(z, y):
    return F.cross_entropy(z, y.flatten())


def googlenet_loss(z, y):
    return F.cross_entropy(z[0], y) + 0.3 * (F.cross_entropy(z[1], y) + F.cross_entropy(z[2], y))


# name: (network, loss, shape of a sequence or image, classes, samples that one row of the batch counts for)
MODELS = {
    'mlp': (mlp, cross_entropy, (784,), 10),
    'lenet': (lenet, cross_entropy, (1, 28, 28), 10),
    'resnet20': (resnet20, cross_entropy, (3, 32, 32), 10),
    'alexnet': (alexnet, cross_entropy, (3, 227, 227), 1000),
    'googlenet': (GoogLeNet, googlenet_loss, (3, 224, 224), 1000),
    'vgg16': (vgg16, cross_entropy, (3, 224, 224), 1000),
    'resnet50': (resnet50, cross_entropy, (3, 224, 224), 1200),
    'lstm20': (EventClassifier, cross_entropy, (100, 19), 3),
    'lstm512': (CharacterModel, cross_entropy, (32,), 65),
}


def multiply_adds(model, sample):
    """Of forward and backward for one row: three products per layer, two where no gradient goes further down."""
    counts, first = [], []

    def count(layer, inputs, output):
        if isinstance(layer, nn.Conv2d):
            work = output[0].numel() * layer.weight[0].numel()
        elif isinstance(layer, nn.Linear):
            work = output[0].numel() * layer.in_features
        else:
            steps = inputs[0].shape[1]
            counts.append(2 * steps * layer.weight_ih_l0.numel() if not inputs[0].requires_grad else 3 * steps * layer.weight_ih_l0.numel())
            counts.append(3 * steps * layer.weight_hh_l0.numel())
            return
        if isinstance(inputs[0], torch.Tensor) and not inputs[0].requires_grad:
            first.append(layer)
            counts.append(2 * work)
        else:
            counts.append(3 * work)

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear, nn.LSTM))]
    model(sample)
    for hook in hooks:
        hook.remove()
    return sum(counts)


def make_batches(name, batch, count):
    _, _, shape, classes = MODELS[name]
    batches = []
    for _ in range(count):
        if name == 'lstm512':
            batches.append((torch.randint(classes, (batch, *shape)), torch.randint(classes, (batch, *shape))))
        else:
            batches.append((torch.rand(batch, *shape) * 2 - 1, torch.randint(classes, (batch,))))
    return batches


LOWER = {'bfloat16': torch.bfloat16, 'float16': torch.float16}  # products in these types run under autocast


def train(name, batch, seconds, channels_last, dtype, device, compiled):
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != 'float32'
    torch.backends.cudnn.benchmark = True
    make, loss_of, shape, _ = MODELS[name]
    model = make()
    work = multiply_adds(model, make_batches(name, 2, 1)[0][0])
    model = model.to(device)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    batches = [(x.to(device), y.to(device)) for x, y in make_batches(name, batch, 2)]
    if channels_last:
        batches = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in batches]
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    except (RuntimeError, TypeError):  # older versions update on the CPU one by one
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    network = torch.compile(model, mode='max-autotune') if compiled else model
    scaler = torch.amp.GradScaler(device, enabled=dtype == 'float16')
    total = torch.zeros((), device=device)

    def step(i):
        x, y = batches[i % len(batches)]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=LOWER.get(dtype), enabled=dtype in LOWER):
            loss = loss_of(network(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total.add_(loss.detach())

    def finish():
        if device == 'cuda':
            torch.cuda.synchronize()

    times = []
    at_once = 10 if device == 'cuda' else 1  # the host runs ahead of a GPU
    for i in range(3):
        step(i)
    finish()
    start = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        for i in range(at_once):
            step(i)
        finish()
        times.append((time.perf_counter() - begin) / at_once)
    return {'seconds': times, 'parameters': sum(p.numel() for p in model.parameters()), 'multiply_adds': work,
            'loss': float(total) / (len(times) * at_once + 3), 'version': torch.__version__,
            'device': torch.cuda.get_device_name(0) if device == 'cuda' else 'cpu',
            'peak': torch.cuda.max_memory_allocated() / 2**20 if device == 'cuda' else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('model', choices=MODELS)
    parser.add_argument('--batch', type=int, required=True)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--channels-last', action='store_true')
    parser.add_argument('--dtype', choices=('float32', 'tf32', 'bfloat16', 'float16'), default='float32')
    parser.add_argument('--device', choices=('cpu', 'cuda'), default='cpu')
    parser.add_argument('--compiled', action='store_true')
    arguments = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    print(json.dumps(train(arguments.model, arguments.batch, arguments.seconds, arguments.channels_last, arguments.dtype, arguments.device,
                           arguments.compiled)))


if __name__ == '__main__':
    main()
