//! See `fuzz::images::reference`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("reference"), |data: &[u8]| fuzz::images::reference(data));
