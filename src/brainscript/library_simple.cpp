// SPDX-License-Identifier: Apache-2.0
// The networks of SimpleNetworkBuilder in the network language. Nodes and their order are the original's: initial
// weights and the names of unnamed nodes (AutoName0, ...) depend on the order, so records are evaluated in theirs.
#include "brainscript/library.h"

namespace tutti::brainscript {

extern constexpr std::string_view simple_library = R"BS(
_SimpleNetwork (o) = _InOrder ({
  feedForward = o.type == 'SIMPLENET'
  n = Length (o.sizes) - 2    # hidden layers
  size (k) = o.sizes[k]
  lookup = if o.order > 0 then 1 else 0
  width = size (lookup) * Max (o.order, 1)    # of what the first layer behind the lookup table reads

  node (operation, inputs) = new ComputationNode { }
  input (name, dims, sparse) = _Named (name, new ComputationNode { operation = 'InputValue' })
  random (name, rows, cols) = _Named (name, new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : cols
    init = if o.uniform then 'uniform' else 'gaussian'; initValueScale = o.scale
  })
  constant (name, rows, value) = _Named (name, new ComputationNode {
    operation = 'LearnableParameter'; dims = rows : 1; init = 'fixedValue'
  })
  past (dims, inputs, timeStep) = new ComputationNode { operation = 'PastValue'; defaultHiddenActivation = o.activity }
  typeOf (k) = o.types[Min (k, Length (o.types) - 1)]    # of hidden layer k; the last type repeats
  nonlinear (k, x) = if typeOf (k) == 'None' then x else node (typeOf (k), x)
  drop (x) = if o.dropout then node ('Dropout', x) else x
  dropAs (x) = if o.dropout then _Named ('Drop' + x.name, node ('Dropout', x)) else x
  named (name, x) = if feedForward then _Named (name, x) else x

  features = input ('features', size (0), o.sparse)
  mean () = named ('MeanOfFeatures', node ('Mean', features))
  deviation () = named ('InvStdOfFeatures', node ('InvStdDev', features))
  x0 = if !o.normalize then features
       else named ('MVNormalizedFeatures', node ('PerDimMeanVarNormalization', features : mean () : deviation ()))
  lookedUp () = _InOrder ({
    E = random ('E0', size (1), size (0) / o.order)
    y = drop (_Named ('LookupTable', node ('LookupTable', E : x0)))
  }).y

  # W x + b, with the original's names
  dense (k, x) = _InOrder ({
    W = random ('W' + Format (k), size (k + 1), size (k))
    b = constant ('B' + Format (k), size (k + 1), 0)
    product = _Named (W.name + '*' + x.name, W * x)
    sum = _Named (if k == n then 'HLast' else product.name + '+' + b.name, product + b)
    y = if k == n then sum else dropAs (_Named ('H' + Format (k + 1), nonlinear (k, sum)))
  }).y

  # U x + W h(t-1) if it loops, otherwise U x + b
  layer (i, x, loops, randomBias, typeAs) = _InOrder ({
    U = random ('U' + Format (i), size (i + 1), size (i))
    W = if loops then random ('W' + Format (i), size (i + 1), size (i + 1))
        else if randomBias then random ('B' + Format (i), size (i + 1), 1)
        else constant ('B' + Format (i), size (i + 1), 0)
    before = if loops then past (size (i + 1), h, 1) else None
    h = if loops then nonlinear (typeAs, U * x + W * before) else nonlinear (i, U * x + W)
  }).h

  # With peepholes. Each use of the last step is a delay of its own.
  lstm (i, in, out, x) = _InOrder ({
    weight (name, cols) = random (name + Format (i), out, cols)
    bias (name, value) = constant (name + Format (i), out, value)
    XO = weight ('WXO', in); XI = weight ('WXI', in); XF = weight ('WXF', in); XC = weight ('WXC', in)
    bo = bias ('bo', o.outputBias); bc = bias ('bc', 0); bi = bias ('bi', o.inputBias); bf = bias ('bf', o.forgetBias)
    HI = weight ('WHI', out); CI = weight ('WCI', 1); HF = weight ('WHF', out); CF = weight ('WCF', 1)
    HO = weight ('WHO', out); CO = weight ('WCO', 1); HC = weight ('WHC', out)
    lastH () = past (out, h, 1)
    lastC () = past (out, cell, 1)
    gate (X, b, H, C, state) = _InOrder ({
      before = lastH (); c = state
      fromX = X * x + b; fromH = H * before; fromC = node ('DiagTimes', C : c)
      y = nonlinear (0, fromX + fromH + fromC)
    }).y
    candidate () = node ('Tanh', XC * x + (HC * lastH () + bc))
    fresh = if o.constInputGate then candidate () else gate (XI, bi, HI, CI, lastC ()) .* candidate ()
    kept = if o.constForgetGate then lastC () else gate (XF, bf, HF, CF, lastC ()) .* lastC ()
    cell = kept + fresh
    squashed = node ('Tanh', cell)
    h = if o.constOutputGate then squashed else gate (XO, bo, HO, CO, cell) .* squashed
    y = drop (h)
  }).y

  bilinear (i, x, loops) = _InOrder ({
    U = random ('U' + Format (i), size (i + 1), if i == lookup then width else size (i))
    below = U * x
    R = if loops then random ('R' + Format (i + 1), size (i + 1), size (i + 1)) else None
    before = if loops then past (size (i + 1), z, 1) else None
    z = if loops then R * before + below else below
    b = constant ('bi' + Format (i), size (i + 1), 0)
    y = drop (z + b)
  }).y

  lastWeight () = random ('W' + Format (n), size (n + 1), size (n))
  compared (prefix, criterion, labels, z) = _Named (prefix + criterion, node (criterion,
    labels : (if criterion == 'Logistic' then named (prefix + 'LogisticProb', node ('Sigmoid', z)) else z)))
  # Criterion and evaluation of recurrent networks are one node where they are the same.
  scored (scores, sparse) = _InOrder ({
    labels = input ('labels', size (n + 1), sparse)
    z = scores
    criteria = compared ('', o.criterion, labels, z)
    evaluations = if o.evaluation == o.criterion && !feedForward then criteria
                  else compared ('Eval', o.evaluation, labels, z)
  })
  # A column of W for each word.
  scoredByClass (x) = _InOrder ({
    W = random ('W' + Format (n), size (n), size (n + 1))
    labels = input ('labels', 4, false)
    classes = random ('WeightForClassPostProb', o.classes, size (n))
    scores = _Named ('ClassPostProb', classes * x)
    criteria = _Named ('TrainNodeClassBasedCrossEntropy', node (o.criterion, labels : x : W : scores))
    evaluations = criteria
  })
  likelihood (z, labels) =
    _Named ('ScaledLogLikelihood', z - _Named ('LogOfPrior', node ('Log', named ('Prior', node ('Mean', labels)))))
  posterior (z) = _Named ('PosteriorProb', node ('Softmax', z))

  # Each network has `outputs`, and in `result` its labels, criteria and evaluations.
  Feed () = {
    x = dropAs (x0)
    h[k:0..n] = dense (k, if k == 0 then x else h[k-1])
    result = scored (h[n], false)
    outputs = if o.prior then likelihood (h[n], result.labels) else h[n]
    softmax = posterior (h[n])
  }
  Rnn () = {
    h[i:0..n-1] = drop (layer (i, if i == 0 then x0 else h[i-1], o.loops[i], false, 0))
    W = lastWeight ()
    result = scored (W * h[n-1], false)
    criterion = _Named ('criterion', result.criteria)
    evaluation = if o.evaluation == o.criterion then criterion else _Named ('eval', result.evaluations)
    outputs = _Named ('outputs', W * h[n-1])
  }
  ClassRnn () = {
    h[i:0..n-1] = drop (layer (i, if i == 0 then x0 else h[i-1], o.loops[i], true, 0))
    result = scoredByClass (h[n-1])
    outputs = result.criteria
  }
  lstms () = _InOrder ({
    x = if lookup == 1 then lookedUp () else x0
    h[i:lookup..n-1] = if i == lookup then lstm (0, width, size (lookup + 1), x)
      else drop (if o.loops[i] then lstm (i, size (i), size (i + 1), h[i-1]) else layer (i, h[i-1], false, false, 0))
  }).h[n-1]
  Lstm () = {
    h = lstms ()
    W = lastWeight ()
    result = scored (W * h, false)
    z = _Named ('outputs', W * h)
    outputs = if o.prior then likelihood (z, result.labels) else z
    softmax = posterior (z)
  }
  ClassLstm () = {
    x = lstms ()
    extra = if o.type == 'CLSTM' then input ('binaryFeature', o.extra, false) else None
    A = if o.type == 'CLSTM' then random ('AuxTrans0', size (n), o.extra) else None
    h = if o.type != 'CLSTM' then x
        else _Named ('PlusGlobalBias', x + _Named ('TimesToGetGlobalBias', nonlinear (n, A * extra)))
    result = scoredByClass (h)
    outputs = _Named ('outputs', node ('TransposeTimes', result.W : h))
    softmax = posterior (outputs)
  }
  LogBilinear () = {
    x = if lookup == 1 then lookedUp () else x0
    sums[k:0..o.averaged] = if k == 0 then x else _InOrder ({
      earlier = _Named ('pastValue' + Format (k), past (width, x, k))
      D = random ('DD' + Format (k), width, width)
      y = sums[k-1] + D * earlier
    }).y
    first = drop (sums[o.averaged])
    h[i:lookup..n-1] = bilinear (i, if i == lookup then first else h[i-1], o.loops[i])
    W = lastWeight ()
    result = scored (W * h[n-1], false)
    outputs = _Named ('outputs', W * h[n-1])
  }
  # The first hidden layer reads the word and the four before it.
  NeuralProb () = {
    b = constant ('bi0', size (1), 0)
    weight (name) = random (name, size (1), size (0))
    W2 = weight ('WXI2'); W3 = weight ('WXI3'); W4 = weight ('WXI4'); W1 = weight ('WXI1'); W0 = weight ('WXI')
    before (k, W, sum) = W * past (size (0), x0, k) + sum
    s0 = W0 * x0; s1 = before (1, W1, s0); s2 = before (2, W2, s1); s3 = before (3, W3, s2); s4 = before (4, W4, s3)
    first = drop (node ('Tanh', s4) + b)
    h[i:0..n-1] = if i == 0 then first else drop (layer (i, h[i-1], o.loops[i], false, i))
    W = lastWeight ()
    result = scored (W * h[n-1], true)
    outputs = W * h[n-1]
  }
  net = _InOrder (
    if feedForward then Feed () else if o.type == 'SIMPLERNN' then Rnn () else if o.type == 'CLASSLM' then ClassRnn ()
    else if o.type == 'LSTM' then Lstm () else if o.type == 'LBLM' then LogBilinear ()
    else if o.type == 'NPLM' then NeuralProb () else ClassLstm ())
  featureNodes = if o.type == 'CLSTM' then features : net.extra else features
})
)BS";
}  // namespace tutti::brainscript
