//! See `fuzz::registries::credentials`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::seeds::write("credentials"), |data: &[u8]| fuzz::registries::credentials(data));
