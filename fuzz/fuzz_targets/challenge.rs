//! See `oci::fuzz::challenge`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("challenge"), |data: &[u8]| oci::fuzz::challenge(data));
