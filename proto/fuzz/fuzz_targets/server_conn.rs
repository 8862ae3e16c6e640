#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| { let _ = trellis_proto_fuzz::server_conn(data); });
