//! See `disk::fuzz::layer`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("layer"), |data: &[u8]| disk::fuzz::layer(data));
