# SPDX-License-Identifier: Apache-2.0
"""onnx_run.py -- the part of onnx_test.py that needs NumPy and onnxruntime; a Python that has them runs it.

onnx_run.py shake IN.safetensors OUT.safetensors: other weights of the same shapes, so that no layer is at its beginning.
onnx_run.py data SPEC OUT.ctf ARRAYS.npz: random data for a model's inputs, as CTF and as arrays. SPEC is JSON: {"inputs": {name: dimensions of a
    sample}, "lengths": lengths of the sequences, or "samples": n; "sparse": inputs of one-hot vectors; "extra": {stream: dim}, of one sample for each sequence}.
onnx_run.py compare MODEL.onnx ARRAYS.npz OUTPUTS: runs it and compares each output with OUTPUTS.<name>, a text of one sample per line.
onnx_run.py serve: carries out such words, a JSON list in each line of stdin, and answers each with a line, [whether it succeeded, what it said].
"""
import contextlib
import io
import json
import struct
import sys
import traceback

import numpy


def read_weights(path):
    with open(path, 'rb') as f:
        data = f.read()
    (length,) = struct.unpack_from('<Q', data)
    return {name: numpy.frombuffer(data, '<f4', (e['data_offsets'][1] - e['data_offsets'][0]) // 4, 8 + length + e['data_offsets'][0]).reshape(e['shape'])
            for name, e in json.loads(data[8:8 + length]).items() if name != '__metadata__'}


def write_weights(path, tensors):
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': array.shape, 'data_offsets': [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        f.writelines(numpy.ascontiguousarray(array).tobytes() for array in tensors.values())


def shake(source, target):
    random = numpy.random.default_rng(1)
    shaken = {}
    for name, array in read_weights(source).items():
        noise = random.standard_normal(array.shape, numpy.float32)
        if 'ariance' in name or 'InvStdDev' in name:
            shaken[name] = (0.5 + random.random(array.shape)).astype(numpy.float32)
        elif array.size > 1 and array.std() > 0:
            shaken[name] = array
        else:
            shaken[name] = array + numpy.float32(0.1) * noise
    write_weights(target, shaken)


def make_data(spec, ctf, arrays):
    spec, random = json.loads(spec), numpy.random.default_rng(7)
    lengths = spec.get('lengths') or [1] * spec['samples']
    streams = {}
    for name, dims in spec['inputs'].items():
        of_stream = []
        for length in lengths:
            if name in spec.get('sparse', []):
                x = numpy.zeros([length] + dims, numpy.float32)
                for step in x:
                    step.flat[random.integers(step.size)] = 1
            else:
                x = random.standard_normal([length] + dims, numpy.float32).astype(numpy.float32)
            of_stream.append(x)
        streams[name] = of_stream
    extra = {name: [numpy.ones((1, dim), numpy.float32)] * len(lengths) for name, dim in spec.get('extra', {}).items()}
    with open(ctf, 'w', encoding='utf-8') as f:
        for number in range(len(lengths)):
            for step in range(lengths[number]):
                fields = [f'|{name} ' + (f'{x[number][step].argmax()}:1' if name in spec.get('sparse', []) else ' '.join(map(repr, map(float, x[number][step].flat))))
                          for name, x in (streams | extra).items() if step < len(x[number])]
                f.write(f'{number} {" ".join(fields)}\n')
    numpy.savez(arrays, **{f'{name}/{i}': x for name, all in streams.items() for i, x in enumerate(all)})


def compare(model, arrays, outputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # its threads spin while they wait
    session = onnxruntime.InferenceSession(model, options)
    data = numpy.load(arrays)
    inputs = session.get_inputs()
    count = len([name for name in data.files if name.startswith(inputs[0].name + '/')])
    sequences = isinstance(inputs[0].shape[1], str)
    sets = [{v.name: data[f'{v.name}/{i}'] for v in inputs} for i in range(count)]
    names = [o.name for o in session.get_outputs()]
    if sequences:  # one by one, with a batch of one
        rows = [session.run(names, {k: x[:, None] for k, x in one.items()}) for one in sets]
        results = [numpy.concatenate([r[i].reshape(r[i].shape[0], -1) for r in rows]) for i in range(len(names))]
        # The same sequence twice in a batch.
        twice = session.run(names, {k: numpy.stack([x, x], 1) for k, x in sets[0].items()})
        for i, name in enumerate(names):
            numpy.testing.assert_allclose(twice[i][:, 1], rows[0][i][:, 0], rtol=1e-4, atol=1e-5, err_msg=name)
    else:
        results = session.run(names, {v.name: numpy.concatenate([s[v.name] for s in sets]) for v in inputs})
    worst = 0
    for name, result in zip(names, results):
        expected = numpy.loadtxt(f'{outputs}.{name}', ndmin=2, dtype=numpy.float32)
        result = result.reshape(len(result), -1)
        if result.shape != expected.shape:
            sys.exit(f'{name}: {result.shape} from onnxruntime, {expected.shape} from the trainer')
        error = numpy.abs(result - expected) / numpy.maximum(1, numpy.abs(expected).max())
        if not error.max() < 1e-4:
            sys.exit(f'{name}: differs by {error.max()}:\n{result[:3]}\n{expected[:3]}')
        worst = max(worst, float(error.max()))
    print(f'{len(names)} outputs of {count} differ by at most {worst:.1e}')


def serve():
    for line in sys.stdin:
        command, *words = json.loads(line)
        said, succeeded = io.StringIO(), True
        with contextlib.redirect_stdout(said):
            try:
                COMMANDS[command](*words)
            except (Exception, SystemExit):
                succeeded = False
                traceback.print_exc(file=said)
        print(json.dumps([succeeded, said.getvalue()]), flush=True)


COMMANDS = {'shake': shake, 'data': make_data, 'compare': compare, 'serve': serve}

if __name__ == '__main__':
    COMMANDS[sys.argv[1]](*sys.argv[2:])
