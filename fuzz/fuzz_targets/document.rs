//! See `fuzz::images::document`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("document"), |data: &[u8]| fuzz::images::document(data));
