export TOKENIZERS_PARALLELISM=false  # Disable tokenizer parallelism
export RAYON_RS_NUM_THREADS=16       # Limit Rust threads
