//! See `oci::fuzz::token`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("token"), |data: &[u8]| oci::fuzz::token(data));
