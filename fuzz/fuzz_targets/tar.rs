//! See `disk::fuzz::tar`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("tar"), |data: &[u8]| disk::fuzz::tar(data));
