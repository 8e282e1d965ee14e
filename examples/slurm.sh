#!/bin/bash
# Prepare a dataset as a Slurm array: each task does one unit range of the plan; the last one to end publishes it.
#
#   sbatch --array=0-15 examples/slurm.sh 'corpus/*.jsonl.zst' my-tokenizer my-dataset
#
# The output must be on a file system that all nodes share, or on an object store (s3://…). A task that dies is
# simply run again: its finished units have receipts and are not repeated.
#SBATCH --job-name=tokenmill
#SBATCH --cpus-per-task=16
#SBATCH --mem=16G
#SBATCH --time=04:00:00
set -euo pipefail
inputs=$1 tokenizer=$2 output=$3

# Slurm's own rank variables are for jobs whose ranks wait for one another; these tasks do not.
unset SLURM_PROCID SLURM_NTASKS
tokenmill prepare "$inputs" --tokenizer "$tokenizer" --output "$output" \
  --threads "${SLURM_CPUS_PER_TASK:-16}" \
  --unit-range "${SLURM_ARRAY_TASK_ID:-0}/${SLURM_ARRAY_TASK_COUNT:-1}"

# The last two tasks may each have seen the other unfinished; commit publishes if everything is there.
tokenmill dataset commit "$output" || echo "other tasks are still at work"
