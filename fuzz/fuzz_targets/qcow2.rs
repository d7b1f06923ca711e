//! See `disk::fuzz::qcow2`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("qcow2"), |data: &[u8]| disk::fuzz::qcow2(data));
