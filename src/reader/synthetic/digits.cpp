// SPDX-License-Identifier: Apache-2.0
// Strokes live in a unit square, x to the right and y down; an affine map takes them to pixels. Each pixel's grey value
// follows from its distance to the nearest stroke, which gives smooth edges.
#include <algorithm>
#include <cmath>
#include <vector>

#include "reader/counter_random.h"
#include "reader/synthetic/synthetic_source.h"

namespace tutti::reader {
namespace {

struct Point {
  float x = 0, y = 0;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// Points on an ellipse from angle `from` to `to`, in degrees clockwise from the right.
Stroke arc(float cx, float cy, float rx, float ry, float from, float to) {
  const int steps = std::max(4, static_cast<int>(std::fabs(to - from) / 24));
  Stroke s;
  for (int i = 0; i <= steps; ++i) {
    const float a = (from + (to - from) * static_cast<float>(i) / static_cast<float>(steps)) * 0.017453292f;
    s.push_back({cx + rx * std::cos(a), cy + ry * std::sin(a)});
  }
  return s;
}

Stroke join(Stroke a, const Stroke& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Two ways to write each digit.
std::vector<std::array<Glyph, 2>> make_glyphs() {
  const Stroke two = join(arc(.5f, .32f, .26f, .22f, -170, 30), {{.24f, .9f}, {.78f, .9f}});
  const Stroke three = join(arc(.47f, .3f, .24f, .2f, -150, 90), arc(.47f, .7f, .28f, .21f, -90, 150));
  const Stroke five = join({{.32f, .1f}, {.29f, .46f}}, arc(.48f, .66f, .27f, .24f, -130, 150));
  const Stroke seven = {{.22f, .12f}, {.78f, .12f}, {.42f, .9f}};
  return {
      {Glyph{arc(.5f, .5f, .28f, .4f, -90, 270)}, Glyph{arc(.5f, .5f, .22f, .4f, -120, 240)}},
      {Glyph{{{.5f, .1f}, {.5f, .9f}}}, Glyph{{{.33f, .28f}, {.54f, .1f}, {.54f, .9f}}}},
      {Glyph{two},
       Glyph{join(arc(.5f, .32f, .25f, .22f, -180, 50), {{.3f, .82f}, {.24f, .9f}, {.5f, .84f}, {.8f, .9f}})}},
      {Glyph{three}, Glyph{join(Stroke{{.25f, .1f}, {.7f, .1f}, {.46f, .42f}}, arc(.47f, .68f, .27f, .23f, -90, 150))}},
      {Glyph{{{.6f, .1f}, {.2f, .63f}, {.82f, .63f}}, {{.62f, .4f}, {.62f, .92f}}},
       Glyph{{{.28f, .12f}, {.25f, .55f}, {.76f, .55f}}, {{.72f, .1f}, {.7f, .92f}}}},
      {Glyph{five, {{.32f, .1f}, {.76f, .1f}}}, Glyph{join(Stroke{{.74f, .12f}}, five)}},
      {Glyph{join(Stroke{{.66f, .1f}, {.42f, .3f}, {.29f, .55f}}, arc(.5f, .68f, .23f, .22f, 180, -180))},
       Glyph{join(Stroke{{.55f, .1f}, {.36f, .36f}, {.28f, .62f}}, arc(.5f, .7f, .22f, .2f, 180, -180))}},
      {Glyph{seven}, Glyph{seven, {{.36f, .5f}, {.7f, .5f}}}},
      {Glyph{arc(.5f, .3f, .2f, .19f, 90, 450), arc(.5f, .7f, .25f, .21f, -90, 270)},
       Glyph{arc(.5f, .29f, .18f, .18f, 90, 450), arc(.5f, .69f, .21f, .22f, -90, 270)}},
      {Glyph{arc(.5f, .33f, .22f, .22f, 0, 360), {{.72f, .33f}, {.71f, .6f}, {.6f, .9f}}},
       Glyph{arc(.49f, .32f, .22f, .21f, 0, 360), {{.71f, .3f}, {.68f, .9f}}}},
  };
}

// Where a point of the unit square lands: a little bent, then slanted, turned, sized and moved.
class Hand {
 public:
  Hand(CounterRandom& r, float distortion)
      : bend_(distortion * r.between(-.04f, .04f)),
        phase_(r.between(0, 6.2831853f)),
        drift_x_(distortion * r.between(-2, 2)),
        drift_y_(distortion * r.between(-2, 2)) {
    const float turn = distortion * r.between(-.2f, .2f);
    const float slant = .1f + distortion * r.between(-.2f, .2f);
    const float size = 19.5f + distortion * r.between(-2.5f, 2.5f);
    const float wide = size * (.95f + distortion * r.between(-.15f, .15f));
    const float c = std::cos(turn), s = std::sin(turn);
    xx_ = c * wide;
    xy_ = -c * wide * slant - s * size;
    yx_ = s * wide;
    yy_ = -s * wide * slant + c * size;
  }
  Point operator()(Point p) const {
    const float x = p.x - .5f + bend_ * std::sin(6.2831853f * p.y + phase_);
    const float y = p.y - .5f + bend_ * std::sin(6.2831853f * p.x + phase_);
    constexpr float middle = (digit_side - 1) / 2.0f;
    return {middle + drift_x_ + xx_ * x + xy_ * y, middle + drift_y_ + yx_ * x + yy_ * y};
  }

 private:
  float bend_, phase_, drift_x_, drift_y_;
  float xx_ = 0, xy_ = 0, yx_ = 0, yy_ = 0;
};

using Distances = std::array<float, digit_side * digit_side>;  // squared, to the nearest stroke

void draw_segment(Point a, Point b, float reach, Distances& d) {
  constexpr float last = digit_side - 1;
  const auto low = [&](float v) { return static_cast<std::size_t>(std::ceil(std::clamp(v - reach, 0.0f, last))); };
  const auto high = [&](float v) { return static_cast<std::size_t>(std::floor(std::clamp(v + reach, 0.0f, last))); };
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float inverse = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
  for (std::size_t y = low(std::min(a.y, b.y)); y <= high(std::max(a.y, b.y)); ++y)
    for (std::size_t x = low(std::min(a.x, b.x)); x <= high(std::max(a.x, b.x)); ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      float& nearest = d[y * digit_side + x];
      nearest = std::min(nearest, ex * ex + ey * ey);
    }
}

}  // namespace

int digit_label(std::uint64_t seed, std::uint64_t index) {
  return static_cast<int>(CounterRandom(seed, index).next() % 10);
}

void draw_digit(std::uint64_t seed, std::uint64_t index, const DigitStyle& style, DigitImage& image) {
  static const auto glyphs = make_glyphs();
  CounterRandom random(seed, index);
  const auto label = static_cast<std::size_t>(random.next() % 10);
  const Glyph& glyph = glyphs[label][random.next() & 1];
  const Hand hand(random, style.distortion);
  const float pen = random.between(.7f, 1.5f), ink = random.between(.75f, 1);

  Distances distances;
  distances.fill(1e6f);
  for (const Stroke& stroke : glyph)
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i)
      draw_segment(hand(stroke[i]), hand(stroke[i + 1]), pen + 1, distances);

  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < image.size(); ++i, bits >>= 8) {
    if (i % 8 == 0) bits = random.next();
    const float grain = (static_cast<float>(bits & 255) - 127.5f) * (style.noise / 127.5f);
    const float edge = std::clamp(pen + .5f - std::sqrt(distances[i]), 0.0f, 1.0f);
    image[i] = static_cast<std::uint8_t>(std::clamp(ink * edge + grain, 0.0f, 1.0f) * 255.0f + .5f);
  }
}

}  // namespace tutti::reader
