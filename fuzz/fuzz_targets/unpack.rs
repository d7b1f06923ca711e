//! See `disk::fuzz::unpack`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("unpack"), |data: &[u8]| disk::fuzz::unpack(data));
