// SPDX-License-Identifier: Apache-2.0
// recurrent.inl -- the gates of recurrent cells, row by row. Included by kernels.cpp only. The last vector of a row
// reaches back over the one before it, so sources and results must not overlap.

namespace tutti::cpu {
namespace {

// f(load, store) for all vectors of n elements: native ones, or a v16 if n is less than one has.
template <class F>
inline void row_vectors(std::size_t n, F f) {
  constexpr std::size_t width = Native::lanes;
  const auto whole = [&](std::size_t i) {
    f([i](const float* x) { return load_as<Native>(x + i); }, [i](float* y, Native v) { store(y + i, v); });
  };
  std::size_t i = 0;
  for (; i + width <= n; i += width) whole(i);
  if (i == n) return;
  if (n >= width) return whole(n - width);
  f([n](const float* x) { return load_part(x, n); }, [n](float* y, v16 v) { store_part(y, v, n); });
}

void lstm_step(const LstmRows& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  for (std::size_t row = begin; row < end; ++row) {
    const float* p = r.projected + row * 4 * c;
    const float* s = r.from_state + row * r.from_state_step;
    float* g = r.gates + row * 4 * c;
    const float* before = r.cell_before + row * r.cell_before_step;
    float *cell = r.cell + row * c, *h = r.output + row * c;
    row_vectors(c, [&](auto at, auto put) {
      const auto i = sigmoid(at(p) + at(s));
      const auto candidate = tangent_h(at(p + c) + at(s + c));
      const auto f = sigmoid(at(p + 2 * c) + at(s + 2 * c));
      const auto o = sigmoid(at(p + 3 * c) + at(s + 3 * c));
      const auto now = f * at(before) + i * candidate;
      put(g, i), put(g + c, candidate), put(g + 2 * c, f), put(g + 3 * c, o);
      put(cell, now);
      put(h, o * tangent_h(now));
    });
  }
}

void lstm_step_gradient(const LstmRowsGradient& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  for (std::size_t row = begin; row < end; ++row) {
    const float* g = r.gates + row * 4 * c;
    const float* before = r.cell_before + row * r.cell_before_step;
    const float *cell = r.cell + row * c, *dh = r.output_gradient + row * c, *dc = r.cell_gradient + row * c;
    float *dg = r.gates_gradient + row * 4 * c, *down = r.cell_before_gradient + row * c;
    row_vectors(c, [&](auto at, auto put) {
      const auto i = at(g), candidate = at(g + c), f = at(g + 2 * c), o = at(g + 3 * c);
      const auto t = tangent_h(at(cell)), d = at(dh);
      const auto total = at(dc) + d * o * (1.0f - t * t);
      put(dg, total * candidate * i * (1.0f - i));
      put(dg + c, total * i * (1.0f - candidate * candidate));
      put(dg + 2 * c, total * at(before) * f * (1.0f - f));
      put(dg + 3 * c, d * t * o * (1.0f - o));
      put(down, total * f);
    });
  }
}

// update, reset -> gates; the state that has been reset -> inner.
void gru_reset(const GruRows& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  for (std::size_t row = begin; row < end; ++row) {
    const float* p = r.projected + row * 3 * c;
    const float* s = r.from_state + row * r.from_state_step;
    const float* before = r.output_before + row * r.output_before_step;
    float *g = r.gates + row * 3 * c, *inner = r.inner + row * c;
    row_vectors(c, [&](auto at, auto put) {
      const auto reset = sigmoid(at(p + c) + at(s + c));
      put(g, sigmoid(at(p) + at(s))), put(g + c, reset);
      put(inner, reset * at(before));
    });
  }
}

void gru_step(const GruRows& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  for (std::size_t row = begin; row < end; ++row) {
    const float* p = r.projected + row * 3 * c;
    const float* s = r.from_state + row * r.from_state_step;
    const float* before = r.output_before + row * r.output_before_step;
    float *g = r.gates + row * 3 * c, *inner = r.inner + row * c, *h = r.output + row * c;
    const auto finish = [&](auto at, auto put, auto update, auto candidate) {
      put(g + 2 * c, candidate);
      put(h, update * at(before) + (1.0f - update) * candidate);
    };
    if (r.kind == CellKind::gru_reset_before) {
      row_vectors(c, [&](auto at, auto put) { finish(at, put, at(g), tangent_h(at(p + 2 * c) + at(s + 2 * c))); });
      continue;
    }
    row_vectors(c, [&](auto at, auto put) {
      const auto state = [&](std::size_t gate) {
        const auto sum = at(s + gate * c);
        return r.state_bias ? sum + at(r.state_bias + gate * c) : sum;
      };
      const auto update = sigmoid(at(p) + state(0)), reset = sigmoid(at(p + c) + state(1)), turned = state(2);
      put(g, update), put(g + c, reset), put(inner, turned);
      finish(at, put, update, tangent_h(at(p + 2 * c) + reset * turned));
    });
  }
}

void gru_step_gradient(const GruRowsGradient& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  const bool after = r.kind == CellKind::gru_reset_after;
  for (std::size_t row = begin; row < end; ++row) {
    const float *g = r.gates + row * 3 * c, *inner = r.inner + row * c;
    const float* before = r.output_before + row * r.output_before_step;
    const float *dh = r.output_gradient + row * c, *carried = r.carried_gradient + row * c;
    float* dg = r.gates_gradient + row * 3 * c;
    row_vectors(c, [&](auto at, auto put) {
      const auto update = at(g), candidate = at(g + 2 * c), d = at(dh) + at(carried);
      const auto of_update = d * (at(before) - candidate) * update * (1.0f - update);
      const auto of_candidate = d * (1.0f - update) * (1.0f - candidate * candidate);
      put(dg, of_update), put(dg + 2 * c, of_candidate);
      if (!after) return;
      const auto reset = at(g + c), of_reset = of_candidate * at(inner) * reset * (1.0f - reset);
      float* ds = r.from_state_gradient + row * 3 * c;
      put(dg + c, of_reset);
      put(ds, of_update), put(ds + c, of_reset), put(ds + 2 * c, of_candidate * reset);
      put(r.output_before_gradient + row * c, d * update);
    });
  }
}

void gru_reset_gradient(const GruRowsGradient& r, std::size_t begin, std::size_t end) {
  const std::size_t c = r.cells;
  for (std::size_t row = begin; row < end; ++row) {
    const float* g = r.gates + row * 3 * c;
    const float* before = r.output_before + row * r.output_before_step;
    const float *dh = r.output_gradient + row * c, *carried = r.carried_gradient + row * c;
    const float* down = r.reset_gradient + row * c;
    float *dg = r.gates_gradient + row * 3 * c, *to = r.output_before_gradient + row * c;
    row_vectors(c, [&](auto at, auto put) {
      const auto update = at(g), reset = at(g + c), d = at(down);
      put(dg + c, d * at(before) * reset * (1.0f - reset));
      put(to, (at(dh) + at(carried)) * update + d * reset);
    });
  }
}

}  // namespace
}  // namespace tutti::cpu
