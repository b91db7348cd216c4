//! A GPU in software, for tests: what libcuda and libtorch_cuda would be on a machine with a GPU, as one shared library.
//!
//! `driver` is CUDA's driver interface as far as rk and the emulated device of torch use it: contexts, memory, modules, streams, events,
//! capture and graphs, with CUDA's error codes. Work is queued and done when somebody waits for it, in an order that tests choose.
//! `cc/` is the device for torch: whatever PyTorch's CPU can do, it can, through a fallback that queues the CPU's kernel on the addresses
//! of the operands. Kernels in PTX are interpreted.
//!
//! The library's name inside is libtorch_cuda.so, and a file libcuda.so is linked to it; a process that has loaded it before its first call
//! to CUDA finds it under both names (`tests/emulated`). Nothing of rk knows that it is not a GPU.
//!
//! Not here: the time of a GPU. Events measure one that is made up (`clock`). Nothing runs at the same time as something else, no memory
//! is weakly ordered: what passes here may still fail on a GPU. cuBLAS, cuDNN and torch's CUDA kernels are not here either: numbers are those of the CPU's kernels.

mod capture;
mod clock;
mod driver;
mod faults;
mod gpu;
mod memory;
mod order;
mod ptx;
mod result;
mod torch;
mod work;
