#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trellis_proto_fuzz::peers(data));
