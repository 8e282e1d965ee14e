TOKENIZERS_PARALLELISM=true     # Enable tokenizer-level parallelism
RAYON_RS_NUM_THREADS=32        # Rust thread pool size
