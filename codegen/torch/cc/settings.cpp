// What of torch's global state decides which kernel a call is, and how much memory it asks for.
//
// A setting has a name and a value, and can be set; a fact about libraries or the environment can only be compared. Both are written as
// `name=value`, separated by blanks, in the order below.
//
// With these equal, cuDNN's choice for a convolution depends on its shapes, types, strides and padding alone: without `cudnn_benchmark`
// torch asks cuDNN's heuristics for a list and takes the first entry that it can run, with `cudnn_deterministic` the first one that gives the
// same bits every time. What else it depends on: an entry is passed over when its workspace cannot be allocated. So memory must not be short.
#include "common.h"
#include "settings.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace rk {

const char* (*gpu_name)(int8_t) = nullptr;

namespace {

using at::Context;
using at::CuBLASReductionOption;
using at::Float32Backend;
using at::Float32Op;

struct Setting {
  std::string name;
  std::function<std::string()> get;
  std::function<void(const std::string&)> set; // none: a fact
};

Context& context() { return at::globalContext(); }

Setting truth(const char* name, bool (Context::*get)() const, void (Context::*set)(bool)) {
  return {name, [get] { return (context().*get)() ? "on" : "off"; }, [set](const std::string& value) { (context().*set)(value == "on"); }};
}

// Of float32, where a backend may compute with fewer bits.
Setting precision(const char* name, Float32Backend backend, Float32Op op) {
  return {name, [=] { return at::precision2str(context().float32Precision(backend, op)); },
          [=](const std::string& value) { context().setFloat32Precision(backend, op, at::str2precision(value)); }};
}

Setting reduction(const char* name, CuBLASReductionOption (Context::*get)() const, void (Context::*set)(bool, bool)) {
  const auto number = [=] { return static_cast<int>((context().*get)()); };
  return {name, [=] { return std::to_string(number()); }, [=](const std::string& value) { (context().*set)(value == "0", value != "2"); }};
}

Setting variable(const char* name) {
  return {name, [=] {
            const char* value = std::getenv(name);
            std::string text = value == nullptr || *value == 0 ? "unset" : value;
            std::replace(text.begin(), text.end(), ' ', '_');
            return text;
          }, nullptr};
}

// Of a process in which nobody has called cuBLAS yet: torch reads it then, and keeps what it read. What the user has said stays.
Setting blas_workspace() {
  auto setting = variable("CUBLAS_WORKSPACE_CONFIG");
  setting.set = [name = setting.name, get = setting.get](const std::string& value) {
    if (get() == "unset") setenv(name.c_str(), value.c_str(), 1);
  };
  return setting;
}

Setting deterministic() {
  const auto get = [] { return !context().deterministicAlgorithms() ? "off" : context().deterministicAlgorithmsWarnOnly() ? "warn" : "on"; };
  return {"deterministic", get, [](const std::string& value) {
            context().setDeterministicAlgorithms(value != "off", value == "warn");
            // torch would fill all memory that is handed out with NaN, too: a kernel per tensor, for the sake of who reads what nobody wrote.
            if (value != "off") context().setDeterministicFillUninitializedMemory(false);
          }};
}

std::vector<Setting> all(const c10::Device& device) {
  std::vector<Setting> out = {deterministic()};
  if (device.is_cpu()) {
    out.push_back(truth("mkldnn", &Context::userEnabledMkldnn, &Context::setUserEnabledMkldnn));
    out.push_back(truth("mkldnn_deterministic", &Context::deterministicMkldnn, &Context::setDeterministicMkldnn));
    out.push_back(precision("conv", Float32Backend::MKLDNN, Float32Op::CONV));
    out.push_back(precision("rnn", Float32Backend::MKLDNN, Float32Op::RNN));
    out.push_back(precision("matmul", Float32Backend::MKLDNN, Float32Op::MATMUL));
    return out;
  }
  out.push_back(truth("cudnn", &Context::userEnabledCuDNN, &Context::setUserEnabledCuDNN));
  out.push_back(truth("cudnn_benchmark", &Context::benchmarkCuDNN, &Context::setBenchmarkCuDNN));
  out.push_back(truth("cudnn_deterministic", &Context::deterministicCuDNN, &Context::setDeterministicCuDNN));
  out.push_back(precision("conv", Float32Backend::CUDA, Float32Op::CONV));
  out.push_back(precision("rnn", Float32Backend::CUDA, Float32Op::RNN));
  auto matmul = precision("matmul", Float32Backend::CUDA, Float32Op::MATMUL);
  // Set with the older setting that says the same, or torch refuses to multiply.
  matmul.set = [set = matmul.set](const std::string& value) {
    context().setAllowTF32CuBLAS(value == "tf32");
    set(value);
  };
  out.push_back(matmul);
  out.push_back(reduction("f16_reduction", &Context::allowFP16ReductionCuBLAS, &Context::setAllowFP16ReductionCuBLAS));
  out.push_back(reduction("bf16_reduction", &Context::allowBF16ReductionCuBLAS, &Context::setAllowBF16ReductionCuBLAS));
  out.push_back(truth("f16_accumulation", &Context::allowFP16AccumulationCuBLAS, &Context::setAllowFP16AccumulationCuBLAS));
  out.push_back({"blas", [] { return std::to_string(static_cast<int>(context().blasPreferredBackend())); },
                 [](const std::string& value) { context().setBlasPreferredBackend(static_cast<at::BlasBackend>(std::atoi(value.c_str()))); }});
  out.push_back(truth("flash", &Context::userEnabledFlashSDP, &Context::setSDPUseFlash));
  out.push_back(truth("efficient", &Context::userEnabledMemEfficientSDP, &Context::setSDPUseMemEfficient));
  out.push_back(truth("math", &Context::userEnabledMathSDP, &Context::setSDPUseMath));
  out.push_back(truth("cudnn_attention", &Context::userEnabledCuDNNSDP, &Context::setSDPUseCuDNN));
  out.push_back(blas_workspace());
  out.push_back(variable("CUDNN_CONV_WSCAP_DBG"));
  out.push_back(variable("NVIDIA_TF32_OVERRIDE"));
  out.push_back({"cudnn_version", [] {
                   const auto& hooks = at::detail::getCUDAHooks();
                   return hooks.hasCuDNN() ? std::to_string(hooks.versionRuntimeCuDNN()) : "none";
                 }, nullptr});
  out.push_back({"gpu", [index = device.index()] {
                   std::string name = gpu_name == nullptr ? "unknown" : gpu_name(index);
                   std::replace(name.begin(), name.end(), ' ', '_');
                   return name;
                 }, nullptr});
  return out;
}

c10::Device device_of(int32_t type, int32_t index) {
  return type == 0 ? c10::Device(c10::DeviceType::CPU) : c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

} // namespace
} // namespace rk

extern "C" {

const char* rk_settings_read(int32_t type, int32_t index, const char** out) {
  return rk::guarded([&] {
    std::string text;
    for (const auto& setting : rk::all(rk::device_of(type, index))) text += (text.empty() ? "" : " ") + setting.name + "=" + setting.get();
    *out = rk::heap_string(text);
  });
}

const char* rk_settings_apply(int32_t type, int32_t index, const char* wanted) {
  return rk::guarded([&] {
    const auto known = rk::all(rk::device_of(type, index));
    std::istringstream words(wanted);
    for (std::string word; words >> word;) {
      const auto equals = std::min(word.find('='), word.size() - 1);
      const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
      for (const auto& setting : known) {
        // What is as wanted is left alone: some of torch's setters warn.
        if (setting.name == name && setting.set != nullptr && setting.get() != value) setting.set(value);
      }
    }
  });
}

} // extern "C"
