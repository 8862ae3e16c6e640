#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trellis_proto_fuzz::requests(data.to_vec().into()));
