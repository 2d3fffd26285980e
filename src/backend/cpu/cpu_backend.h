// SPDX-License-Identifier: Apache-2.0
// cpu_backend.h -- the CPU backend: products by oneDNN and other libraries, everything else by the vector kernels of kernels.h.
#pragma once

#include <memory>

#include "backend/cpu/kernels.h"
#include "tutti/backend.h"

namespace tutti::cpu {

class Bfloat16Matmul;  // bfloat16_matmul.h
class CpuImages;       // images.h
class Products;        // products.h

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(ComputeType = ComputeType::float32, std::shared_ptr<const KernelChoices> = nullptr);
  // With the kernels of one instruction set, to compare sets.
  explicit CpuBackend(const Kernels& kernels, ComputeType = ComputeType::float32,
                      std::shared_ptr<const KernelChoices> = nullptr);
  ~CpuBackend() override;

  std::string name() const override;
  ComputeType compute_type() const override { return compute_type_; }
  float* allocate(std::size_t count) override;
  void release(float*) override;
  void upload(const float* host, float* device, std::size_t count) override;
  void download(const float* device, float* host, std::size_t count) override;
  ImageOps& images() override;

  void fill(float value, float* x, std::size_t count) override;
  void scale(float factor, float* x, std::size_t count, double* sum) override;
  void copy(const Layout&, const float* x, float* y, bool accumulate) override;
  void gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) override;
  void scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) override;
  void replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                       float* y) override;

  void gemm(const Gemm&, const float* a, const float* b, float* c) override;
  void sparse_times(const SparseView& x, const SparseWeight&, const float* w, float* y) override;
  void sparse_times_gradient(const SparseView& x, const SparseWeight&, const float* dy, float* dw) override;
  void densify(const SparseView& x, std::size_t dim, float* y) override;

  void map(UnaryOp, const float* x, float* y, std::size_t count, Element) override;
  void map_gradient(UnaryOp, const float* x, const float* y, const float* dy, float* dx, std::size_t count,
                    bool accumulate, Element) override;
  void combine(PointOp, const Layout&, std::span<const float* const> in, float* y) override;
  void combine_gradient(PointOp, std::size_t k, const Layout&, std::span<const float* const> in, const float* dy,
                        float* dx, bool accumulate) override;
  void bias_activation(UnaryOp, std::size_t rows, std::size_t n, const float* bias, float* y, Element) override;
  void bias_activation_gradient(UnaryOp, std::size_t rows, std::size_t n, const float* y, float* dy, float* dbias,
                                bool accumulate, Element) override;
  void dropout(const DropoutMask&, const float* x, float* y, std::size_t count, bool accumulate, Element) override;

  void reduce(ReduceOp, const Extent&, const float* x, float* y) override;
  void reduce_gradient(ReduceOp, const Extent&, const float* x, const float* y, const float* dy, float* dx,
                       bool accumulate) override;

  void lstm_step(const LstmRows&) override;
  void lstm_step_gradient(const LstmRowsGradient&) override;
  void gru_step(const GruRows&) override;
  void gru_step_gradient(const GruRowsGradient&) override;
  void gru_reset(const GruRows&) override;
  void gru_reset_gradient(const GruRowsGradient&) override;
  std::size_t recurrent_layer_workspace(const RecurrentLayer&) override;
  void recurrent_layer(const RecurrentLayer&) override;
  void recurrent_layer_gradient(const RecurrentLayer&, const RecurrentLayerGradient&) override;

  void softmax(SoftmaxOp, const Extent&, const float* x, float* y) override;
  void softmax_gradient(SoftmaxOp, const Extent&, const float* y, const float* dy, float* dx, bool accumulate) override;

  void loss(const Loss&, std::span<const float* const> in, float* work, double* sum, float* y) override;
  void loss_gradient(const Loss&, std::size_t k, std::span<const float* const> in, const float* work, const float* dy,
                     float* dx, bool accumulate) override;
  void class_loss(const ClassLoss&, float* work, double* sum, float* y) override;
  void class_loss_gradient(const ClassLoss&, ClassLoss::Operand, const float* work, const float* dy, float* dx,
                           bool accumulate) override;

 private:
  const Kernels& kernels_;
  const ComputeType compute_type_;
  std::unique_ptr<Products> products_;        // in float32
  std::unique_ptr<Bfloat16Matmul> bfloat16_;  // null: products in float32
  std::unique_ptr<CpuImages> images_;
};

}  // namespace tutti::cpu
