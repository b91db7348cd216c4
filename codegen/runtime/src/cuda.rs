//! The GPU side of a lowered step: generated kernels, events, and pieces of the step as CUDA graphs.
//!
//! libcuda is loaded when a step for a GPU is run; nothing is linked. What is queued, where and behind what is said by the launch
//! sequence (`rk_step::launch_schedule`): [`Driver`] only carries it out. Operators of ATen are queued by torch on the stream that is
//! made current for them, generated kernels by `cuLaunchKernel` on the same one.
//!
//! It has run on an H100 (docs/benchmarks-gpu.md). What runs in the tests, without one: all of this file, of `executor::graph` and of `cc/cuda.cpp`, as they are, on an
//! emulated GPU (tools/emulated-gpu): contexts, arguments of launches, events, capture, replay, the placing allocator, several streams in every
//! order. The emulation has no time and no kernels of NVIDIA's; PTX is interpreted there, and assembled by ptxas in the tests of `rk-kernels`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys};
use rk_step::kernel::{Geometry, Library};
use rk_step::queue::Event;
use rk_torch::{Buffers, Device, Slots, Streams};

use crate::error::RuntimeError;

/// A refusal of the driver, with what was asked of it.
fn refused(what: &str) -> impl FnOnce(DriverError) -> RuntimeError + '_ {
    move |error| RuntimeError::Device(format!("CUDA: {what}: {error}"))
}

/// Bytes that a GPU can still give: what is free, and what torch's allocator keeps for later, which it gives back when it must.
///
/// # Errors
/// When there is no driver, or it refuses.
pub(crate) fn available_memory(device: Device) -> Result<u64, RuntimeError> {
    enter(device)?;
    let (free, _) = result::mem_get_info().map_err(refused("asking for free memory"))?;
    Ok(free as u64 + rk_torch::memory::cached(device)?)
}

/// Makes the context of a GPU the current one of this thread, as the driver wants it for events, modules and launches. It is the
/// primary one, which torch uses, too; but torch makes it current only in threads that have worked with the GPU through torch.
///
/// # Errors
/// When there is no driver, or it refuses.
pub(crate) fn enter(device: Device) -> Result<(), RuntimeError> {
    static CONTEXTS: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());
    let Device::Cuda(index) = device else { return Ok(()) };
    present()?;
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let context = match contexts.get(&index) {
        Some(&context) => context,
        None => {
            let found = result::device::get(index).map_err(refused("looking for the GPU"))?;
            // SAFETY: a device of the driver; the context is kept to the end of the process.
            let made = unsafe { result::primary_ctx::retain(found) }.map_err(refused("making a context"))?;
            contexts.insert(index, made as usize);
            made as usize
        }
    };
    // SAFETY: it was retained above.
    unsafe { result::ctx::set_current(context as sys::CUcontext) }
        .map_err(refused("making a context current"))
}

/// A call from outside, whose current device may be another one: it is so again when this goes.
pub(crate) struct Inside(Option<sys::CUcontext>);

/// Makes the context of a device the current one of this thread for a while; nothing on the CPU.
///
/// # Errors
/// As [`enter`].
pub(crate) fn inside(device: Device) -> Result<Inside, RuntimeError> {
    if device == Device::Cpu {
        return Ok(Inside(None));
    }
    present()?;
    let before = result::ctx::get_current().map_err(refused("asking for the current context"))?;
    enter(device)?;
    Ok(Inside(before))
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: it was the current one before. An error here has nobody to go to.
        self.0.map(|context| unsafe { result::ctx::set_current(context) }.ok());
    }
}

/// Whether libcuda is there: cudarc ends the process when it is asked for a function and finds no library.
fn present() -> Result<(), RuntimeError> {
    // SAFETY: libcuda has no initializers that need anything.
    match unsafe { sys::is_culib_present() } {
        true => Ok(()),
        false => Err(RuntimeError::Device("the CUDA driver (libcuda.so) is not installed".into())),
    }
}

/// Generated kernels, compiled by the driver for the current GPU. They stay loaded to the end of the process: a graph may still be
/// at work when its step is let go.
pub(crate) struct Modules {
    functions: HashMap<String, sys::CUfunction>,
}

// SAFETY: handles of the driver, which may be used from any thread.
unsafe impl Send for Modules {}

impl Modules {
    /// Compiles the library of a step for a GPU.
    ///
    /// # Errors
    /// When there is no driver, or it cannot compile a kernel: it is too old, or the GPU is not one that the code was made for.
    pub fn load(library: &Library, device: Device) -> Result<Self, RuntimeError> {
        enter(device)?;
        let mut functions = HashMap::new();
        for one in &library.ptx {
            let what = format!("compiling kernel {} for {}", one.symbol, library.level);
            let text = |text: &str| {
                CString::new(text)
                    .map_err(|_| RuntimeError::Device(format!("CUDA: {what}: a zero byte in its text")))
            };
            let (image, symbol) = (text(&one.text)?, text(&one.symbol)?);
            // SAFETY: the image ends with a zero byte, as PTX must, and lives during the call.
            let function = unsafe {
                let module = result::module::load_data(image.as_ptr().cast()).map_err(refused(&what))?;
                result::module::get_function(module, symbol).map_err(refused(&what))?
            };
            functions.insert(one.symbol.clone(), function);
        }
        Ok(Self { functions })
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// When there is none, which a valid step file excludes.
    pub fn function(&self, symbol: &str) -> Result<sys::CUfunction, RuntimeError> {
        let found = self.functions.get(symbol).copied();
        found.ok_or_else(|| RuntimeError::Device(format!("there is no kernel {symbol}")))
    }
}

/// A kernel with its tensors bound.
pub(crate) struct Kernel {
    pub function: sys::CUfunction,
    pub geometry: Geometry,
    pub buffers: Buffers,
}

// SAFETY: a handle of the driver.
unsafe impl Send for Kernel {}

/// Launches that were captured, as one.
pub(crate) struct Graph(sys::CUgraphExec);

// SAFETY: a handle of the driver.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `Driver::end_capture`, let go once; an error here has nobody to go to.
        unsafe { result::graph::exec_destroy(self.0).ok() };
    }
}

/// Streams of one GPU, and events between them.
pub(crate) struct Driver {
    streams: Streams,
    events: BTreeMap<Event, sys::CUevent>,
    /// What was queued for the caller before is done.
    done: Option<sys::CUevent>,
}

// SAFETY: handles of the driver, which may be used from any thread.
unsafe impl Send for Driver {}

impl Driver {
    /// For a step on this many streams of an opened GPU.
    ///
    /// # Errors
    /// When the driver is not there.
    pub fn new(device: Device, streams: u32) -> Result<Self, RuntimeError> {
        enter(device)?;
        Ok(Self { streams: Streams::new(device, streams)?, events: BTreeMap::new(), done: None })
    }

    fn stream(&self, stream: u32) -> Result<sys::CUstream, RuntimeError> {
        Ok(self.streams.handle(stream)?.cast())
    }

    /// What torch queues from now on goes to this stream; `None`: to the one that was current before the step.
    ///
    /// # Errors
    /// When torch refuses.
    pub fn make_current(&mut self, stream: Option<u32>) -> Result<(), RuntimeError> {
        Ok(self.streams.make_current(stream)?)
    }

    /// From now on stream 0 is the caller's current one, which goes on behind what was queued for the caller before, wherever that was.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn arrive(&mut self) -> Result<(), RuntimeError> {
        self.streams.follow()?;
        match self.done {
            Some(done) => self.wait_for(0, done),
            None => Ok(()),
        }
    }

    /// What has been queued for the caller ends here.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn leave(&mut self) -> Result<(), RuntimeError> {
        self.make_current(None)?;
        let done = match self.done {
            Some(done) => done,
            None => *self.done.insert(new_event()?),
        };
        // SAFETY: both handles are alive.
        unsafe { result::event::record(done, self.stream(0)?) }.map_err(refused("recording an event"))
    }

    /// Queues a kernel on the tensors in `slots`.
    ///
    /// # Errors
    /// When a tensor has another layout, or the driver refuses.
    pub fn launch(&self, kernel: &Kernel, slots: &Slots, stream: u32) -> Result<(), RuntimeError> {
        let mut addresses = kernel.buffers.addresses(slots)?;
        let mut parameters: Vec<*mut c_void> =
            addresses.iter_mut().map(|address| std::ptr::from_mut(address).cast()).collect();
        let three = |[x, y, z]: [u32; 3]| (x, y, z);
        let Geometry { grid, block } = kernel.geometry;
        // SAFETY: the code was made for these layouts, and has one parameter per buffer.
        unsafe {
            let stream = self.stream(stream)?;
            result::launch_kernel(kernel.function, three(grid), three(block), 0, stream, &mut parameters)
                .map_err(refused("launching a kernel"))
        }
    }

    /// Lets a stream wait for an event.
    ///
    /// # Errors
    /// When the driver refuses, or nobody has recorded the event.
    pub fn wait(&mut self, stream: u32, event: Event) -> Result<(), RuntimeError> {
        let Some(&found) = self.events.get(&event) else {
            return Err(RuntimeError::Device(format!("CUDA: nobody has recorded {event:?}")));
        };
        self.wait_for(stream, found)
    }

    fn wait_for(&self, stream: u32, event: sys::CUevent) -> Result<(), RuntimeError> {
        let stream = self.stream(stream)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are alive.
        unsafe { result::stream::wait_event(stream, event, flags) }.map_err(refused("waiting for an event"))
    }

    /// Records an event.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn record(&mut self, stream: u32, event: Event) -> Result<(), RuntimeError> {
        let handle = match self.events.get(&event) {
            Some(&handle) => handle,
            None => *self.events.entry(event).or_insert(new_event()?),
        };
        // SAFETY: both handles are alive.
        unsafe { result::event::record(handle, self.stream(stream)?) }.map_err(refused("recording an event"))
    }

    /// What is queued from now on is kept and not done, until [`Driver::end_capture`].
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn begin_capture(&self) -> Result<(), RuntimeError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        unsafe { result::stream::begin_capture(self.stream(0)?, mode) }
            .map_err(refused("beginning a capture"))
    }

    /// Makes a graph of what was queued since [`Driver::begin_capture`]; when `failed`, ends the capture and no more.
    ///
    /// # Errors
    /// When something was queued that a graph cannot hold.
    pub fn end_capture(&self, failed: bool) -> Result<Option<Graph>, RuntimeError> {
        // SAFETY: the stream is alive, and the graph is let go once.
        unsafe {
            let ended = result::stream::end_capture(self.stream(0)?);
            if failed {
                ended.map(|graph| result::graph::destroy(graph).ok()).ok();
                return Ok(None);
            }
            let graph = ended.map_err(refused("ending a capture"))?;
            let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
            let made = result::graph::instantiate(graph, flags);
            result::graph::destroy(graph).map_err(refused("letting a graph go"))?;
            Ok(Some(Graph(made.map_err(refused("making a graph"))?)))
        }
    }

    /// Queues a graph on stream 0.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn replay(&self, graph: &Graph) -> Result<(), RuntimeError> {
        // SAFETY: graph and stream are alive.
        unsafe { result::graph::launch(graph.0, self.stream(0)?) }.map_err(refused("launching a graph"))
    }
}

fn new_event() -> Result<sys::CUevent, RuntimeError> {
    let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
    result::event::create(flags).map_err(refused("making an event"))
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: each handle was made here, and is let go once; an error here has nobody to go to.
        unsafe {
            for &event in self.events.values().chain(&self.done) {
                result::event::destroy(event).ok();
            }
        }
    }
}
