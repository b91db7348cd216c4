//! One forked worker: a closure in, its bytes out, or nothing. Why it is done so is told in [`crate::milp`].

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use crate::portfolio::clock::counted;

/// What a solver has spent since a moment: processor time where work is counted, with that of children that have ended, else that of
/// the system's clock.
pub(crate) struct Spent(Duration);

impl Spent {
    pub(crate) fn now() -> Self {
        Self(Self::so_far())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::so_far().saturating_sub(self.0)
    }

    fn so_far() -> Duration {
        let clock = if counted::is_on() { libc::CLOCK_PROCESS_CPUTIME_ID } else { libc::CLOCK_MONOTONIC };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours; both clocks exist on every Unix.
        unsafe { libc::clock_gettime(clock, &mut time) };
        let own = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        if counted::is_on() { own + of_children() } else { own }
    }
}

/// Processor time of the children that have ended.
fn of_children() -> Duration {
    // SAFETY: all fields are numbers, and zeros are numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Extra address space of the child.
const CHILD_BYTES: u64 = 2 << 30;

/// Runs `job` in a child process and kills it at the limit.
pub fn run(limit: Duration, job: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let address_space = address_space().saturating_add(CHILD_BYTES);
    let mut ends = [0i32; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    let [reader, writer] = ends;
    // SAFETY: the child only runs `be_the_child`, which never returns; see the module for what it may touch.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => be_the_child(writer, limit, address_space, job),
        -1 => {
            // SAFETY: both descriptors are ours and open.
            unsafe {
                libc::close(reader);
                libc::close(writer);
            }
            None
        }
        _ => {
            // SAFETY: ours and open; the child has its own copy.
            unsafe { libc::close(writer) };
            let bytes = receive(reader, pid, deadline);
            // SAFETY: the pid is our child's, which nobody has waited for; the descriptor is ours and open.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
                libc::close(reader);
            }
            bytes
        }
    }
}

/// Virtual bytes of this process.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    pages.map_or(u64::MAX, |pages| pages.saturating_mul(4096))
}

fn be_the_child(writer: i32, limit: Duration, address_space: u64, job: impl FnOnce() -> Vec<u8>) -> ! {
    // SAFETY: plain system calls with constant or stack arguments; nothing here is shared with the parent.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGPIPE, libc::SIGALRM] {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Handlers of the parent, such as Python's faulthandler, would report a solver that crashes as a crash of the parent.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let set = |what, most: u64| {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            libc::setrlimit(what, &limit);
        };
        set(libc::RLIMIT_CORE, 0);
        set(libc::RLIMIT_CPU, limit.as_secs() + 2);
        if address_space != u64::MAX {
            set(libc::RLIMIT_AS, address_space);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        if null >= 0 {
            // What a solver says before it dies is not for the user; the parent notes in its log that it died.
            libc::dup2(null, libc::STDOUT_FILENO);
            libc::dup2(null, libc::STDERR_FILENO);
        }
    }
    let bytes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_default();
    let mut message = (bytes.len() as u64).to_le_bytes().to_vec();
    message.extend(bytes);
    let mut rest = &message[..];
    while !rest.is_empty() {
        // SAFETY: the pointer and the length are those of a live slice.
        let written = unsafe { libc::write(writer, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written..],
            Err(_) => break,
        }
    }
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(0) }
}

/// Whether the child has ended; it is not waited for, so that its pid stays taken.
fn is_gone(pid: i32) -> bool {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zero is a valid `siginfo_t`, which the call fills in for our own child.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, how) != 0 || info.si_pid() != 0
    }
}

/// The message of the child, complete, or nothing: it is late or dead.
///
/// The length comes first, because another child forked meanwhile may hold the pipe open.
fn receive(reader: i32, pid: i32, deadline: Instant) -> Option<Vec<u8>> {
    let mut message: Vec<u8> = Vec::new();
    let mut buffer = [0u8; 1 << 16];
    let mut gone = false;
    loop {
        if let Some((length, bytes)) = message.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            if bytes.len() >= length {
                return Some(bytes[..length].to_vec());
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let wait = i32::try_from(left.as_millis().clamp(1, 20)).unwrap_or(20);
        let mut poll = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        let ready = unsafe { libc::poll(&mut poll, 1, wait) };
        if ready > 0 {
            // SAFETY: the buffer is live and as long as stated.
            let read = unsafe { libc::read(reader, buffer.as_mut_ptr().cast(), buffer.len()) };
            match usize::try_from(read) {
                Ok(0) => return None,
                Ok(read) => message.extend_from_slice(&buffer[..read]),
                Err(_) => {}
            }
        } else if gone {
            // Dead, and nothing more in the pipe.
            return None;
        } else {
            gone = is_gone(pid);
        }
    }
}
