//! CUDA's driver interface, by its own names and conventions. A null stream is the legacy one of the current context; the primary
//! context is the only one that a device has.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use rk_ptx::Module;

use crate::clock::KERNEL;
use crate::gpu::{Counts, DEVICES, Gpu};
use crate::order::Order;
use crate::ptx::Function;
use crate::result::{
    Answer, Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND,
    NOT_INITIALIZED, OUT_OF_MEMORY, SUCCESS, name,
};
use crate::work::Work;

type Handle = *mut c_void;

/// Handles of streams are their numbers behind this one.
const STREAMS: usize = 0x1000;

static GPU: LazyLock<Mutex<(bool, Gpu)>> = LazyLock::new(|| Mutex::new((false, Gpu::new())));

thread_local! {
    static CONTEXT: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether calls of this thread may disturb captures.
    static RELAXED: Cell<bool> = const { Cell::new(false) };
}

fn locked() -> MutexGuard<'static, (bool, Gpu)> {
    GPU.lock().unwrap_or_else(PoisonError::into_inner)
}

fn code(answer: Answer) -> Code {
    answer.err().unwrap_or(SUCCESS)
}

fn with(call: impl FnOnce(&mut Gpu) -> Answer) -> Code {
    let mut gpu = locked();
    if !gpu.0 {
        return NOT_INITIALIZED;
    }
    code(call(&mut gpu.1))
}

/// A call that a capture of this thread does not survive.
fn with_unsafe(call: impl FnOnce(&mut Gpu) -> Answer) -> Code {
    with(|gpu| {
        if !RELAXED.get() {
            gpu.disturb(thread::current().id())?;
        }
        call(gpu)
    })
}

fn context() -> Answer<usize> {
    CONTEXT.get().ok_or(INVALID_CONTEXT)
}

fn stream(handle: Handle) -> Answer<usize> {
    if handle.is_null() {
        return context();
    }
    (handle as usize).checked_sub(STREAMS).ok_or(INVALID_HANDLE)
}

fn device(number: c_int) -> Answer<usize> {
    usize::try_from(number).ok().filter(|&device| device < DEVICES).ok_or(INVALID_DEVICE)
}

/// Writes a result where the caller wants it.
fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: an out-parameter of the caller.
    unsafe { out.write(value) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Code {
    locked().0 = true;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(out: *mut c_int) -> Code {
    with(|_| put(out, DEVICES as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(out: *mut c_int, number: c_int) -> Code {
    with(|_| put(out, device(number)? as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(out: *mut Handle, number: c_int) -> Code {
    with(|_| put(out, (device(number)? + 1) as Handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(number: c_int) -> Code {
    with(|_| device(number).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    with(|_| {
        match (context as usize).checked_sub(1) {
            Some(device) if device >= DEVICES => return Err(INVALID_CONTEXT),
            device => CONTEXT.set(device),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(out: *mut Handle) -> Code {
    with(|_| put(out, CONTEXT.get().map_or(0, |device| device + 1) as Handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(out: *mut c_int) -> Code {
    with(|_| put(out, context()? as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    with_unsafe(|gpu| gpu.finish(context()?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    with(|gpu| {
        let memory = &gpu.memory[context()?];
        put(free, memory.free_bytes())?;
        put(total, memory.total())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(out: *mut usize, bytes: usize) -> Code {
    with_unsafe(|gpu| {
        let made = gpu.memory[context()?].allocate(bytes);
        put(out, made.ok_or(OUT_OF_MEMORY)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: usize) -> Code {
    with_unsafe(|gpu| {
        let device = context()?;
        gpu.finish(device)?;
        if gpu.memory[device].free(address) { Ok(()) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(out: *mut Handle, image: *const c_char) -> Code {
    with_unsafe(|_| {
        let device = context()?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: PTX ends with a zero byte.
        let text = unsafe { CStr::from_ptr(image) }.to_str().map_err(|_| INVALID_PTX)?;
        let module = Module::parse(text).map_err(|why| {
            eprintln!("emulated GPU: {why}");
            INVALID_PTX
        })?;
        put(out, Box::into_raw(Box::new((Arc::new(module), device))).cast())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(out: *mut Handle, module: Handle, entry: *const c_char) -> Code {
    with(|_| {
        if module.is_null() || entry.is_null() {
            return Err(INVALID_HANDLE);
        }
        // SAFETY: a module made above, which is never let go, and a text.
        let ((module, device), entry) =
            unsafe { (&*module.cast::<(Arc<Module>, usize)>(), CStr::from_ptr(entry)) };
        let entry = entry.to_str().map_err(|_| NOT_FOUND)?.to_owned();
        let parameters = module.parameters(&entry).map_err(|_| NOT_FOUND)?;
        let function = Function { module: module.clone(), entry, device: *device, parameters };
        put(out, Box::into_raw(Box::new(function)).cast())
    })
}

/// Reads one parameter of this size. As on a GPU it is read now, and how many there are is what the kernel says.
///
/// # Safety
/// `from` holds at least `at + 1` addresses of parameters.
unsafe fn parameter(from: *const *const c_void, at: usize, bytes: usize) -> Answer<u64> {
    if from.is_null() || bytes > 8 {
        return Err(INVALID_VALUE);
    }
    let mut value = [0u8; 8];
    // SAFETY: the caller's parameters, one per parameter of the kernel and of its size.
    unsafe {
        let address = from.add(at).read();
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        std::ptr::copy_nonoverlapping(address.cast(), value.as_mut_ptr(), bytes);
    }
    Ok(u64::from_le_bytes(value))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    bx: c_uint,
    by: c_uint,
    bz: c_uint,
    _shared: c_uint,
    on: Handle,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> Code {
    with(|gpu| {
        if function.is_null() {
            return Err(INVALID_HANDLE);
        }
        let (grid, block) = ([gx, gy, gz], [bx, by, bz]);
        let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
        if grid.contains(&0) || threads == 0 || threads > 1024 || !extra.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: a function made above, which is never let go.
        let function = unsafe { &*function.cast::<Function>() }.clone();
        let on = stream(on)?;
        // The kernel belongs to the context that it was loaded in.
        if context()? != function.device || gpu.device_of(on)? != function.device {
            return Err(INVALID_HANDLE);
        }
        let sizes = function.parameters.iter().enumerate();
        // SAFETY: as many as the kernel has, by contract.
        let mut values = sizes
            .map(|(at, &bytes)| unsafe { parameter(parameters, at, bytes) })
            .collect::<Answer<Vec<_>>>()?;
        gpu.faults.spoil(&mut values);
        gpu.counts.kernels += 1;
        let entry = format!("kernel {}", function.entry);
        gpu.queue(on, Work::new(entry, KERNEL, move |memory| function.run(grid, block, &values, memory)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(out: *mut Handle, _flags: c_uint, _priority: c_int) -> Code {
    with(|gpu| {
        let made = gpu.new_stream(context()?);
        put(out, (STREAMS + made) as Handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(on: Handle) -> Code {
    // It spoils the capture of this stream, and, being unsafe, one of this thread.
    with(|gpu| {
        gpu.finish_stream(stream(on)?)?;
        if RELAXED.get() { Ok(()) } else { gpu.disturb(thread::current().id()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(on: Handle) -> Code {
    with_unsafe(|gpu| gpu.idle(stream(on)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(on: Handle, event: Handle, _flags: c_uint) -> Code {
    with(|gpu| gpu.wait(stream(on)?, event as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(on: Handle, mode: c_uint) -> Code {
    const RELAXED_MODE: c_uint = 2;
    with(|gpu| gpu.begin_capture(stream(on)?, mode != RELAXED_MODE, thread::current().id()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(on: Handle, out: *mut Handle) -> Code {
    with(|gpu| {
        put(out, std::ptr::null_mut())?;
        put(out, gpu.end_capture(stream(on)?, thread::current().id())? as Handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(on: Handle, out: *mut c_uint) -> Code {
    with(|gpu| {
        let state = gpu.is_capturing(stream(on)?)?;
        put(out, state.map_or(0, |valid| if valid { 1 } else { 2 }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Code {
    const THREAD_LOCAL: c_uint = 1;
    const RELAXED_MODE: c_uint = 2;
    if mode.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: a parameter of the caller, read and written.
    let wanted = unsafe { mode.read() };
    let before = RELAXED.replace(wanted == RELAXED_MODE);
    code(put(mode, if before { RELAXED_MODE } else { THREAD_LOCAL }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(out: *mut Handle, graph: Handle, flags: u64) -> Code {
    const KNOWN: u64 = 1 | 2 | 4 | 8;
    with(|gpu| {
        if flags & !KNOWN != 0 {
            return Err(INVALID_VALUE);
        }
        put(out, gpu.instantiate(graph as u64)? as Handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(graph: Handle, on: Handle) -> Code {
    with(|gpu| gpu.launch_graph(graph as u64, stream(on)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> Code {
    with(|gpu| gpu.destroy_graph(graph as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(graph: Handle) -> Code {
    with(|gpu| gpu.destroy_graph(graph as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(out: *mut Handle, flags: c_uint) -> Code {
    const DISABLE_TIMING: c_uint = 2;
    with(|gpu| {
        let made = gpu.new_event(context()?, flags & DISABLE_TIMING == 0);
        put(out, made as Handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, on: Handle) -> Code {
    with(|gpu| gpu.record(event as u64, stream(on)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Code {
    with_unsafe(|gpu| gpu.event(event as u64, false))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    with_unsafe(|gpu| gpu.event(event as u64, true))
}

/// In milliseconds.
#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(out: *mut f32, from: Handle, to: Handle) -> Code {
    with_unsafe(|gpu| put(out, gpu.elapsed(from as u64, to as u64)? as f32 * 1e-6))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    with(|gpu| gpu.destroy_event(event as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(number: Code, out: *mut *const c_char) -> Code {
    code(name(number).ok_or(INVALID_VALUE).and_then(|name| put(out, name.as_ptr())))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(number: Code, out: *mut *const c_char) -> Code {
    cuGetErrorName(number, out)
}

/// For the emulated device of torch: queues a function as a kernel that takes this long. `free` is called once, when it will not run again.
#[unsafe(no_mangle)]
unsafe extern "C" fn rk_emulated_queue(
    on: Handle,
    what: *const c_char,
    nanos: u64,
    run: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    free: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Code {
    // SAFETY: a text.
    let what = CString::from(unsafe { CStr::from_ptr(what) }).to_string_lossy().into_owned();
    let work = Work::foreign(what, nanos, run, free, data);
    with(|gpu| {
        gpu.counts.operators += 1;
        gpu.queue(stream(on)?, work)
    })
}

/// For tests: the order in which streams that could go on do ([`Order::numbered`]).
#[unsafe(no_mangle)]
extern "C" fn rk_emulated_order(number: u64) {
    locked().1.order = Order::numbered(number);
}

/// For tests: a fault ([`crate::faults::Faults::ask`]).
#[unsafe(no_mangle)]
extern "C" fn rk_emulated_fault(kind: u64, skip: u64) {
    locked().1.faults.ask(kind, skip);
}

/// For tests: what has happened since the last call.
#[unsafe(no_mangle)]
extern "C" fn rk_emulated_counts(out: *mut Counts) {
    // The caller's own.
    let _ = put(out, std::mem::take(&mut locked().1.counts));
}
