//! See `fuzz::registries::mirrors`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("mirrors"), |data: &[u8]| fuzz::registries::mirrors(data));
