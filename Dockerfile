# For clusters: the command and its extras, without Rust and without root. Jobs mount their data.
#   make image && docker run --rm -v "$PWD:/data" tokenmill prepare corpus --tokenizer my-tokenizer --output my-dataset
FROM rust:1-slim-bookworm AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv python3-dev make
WORKDIR /src
COPY . .
RUN make wheel

FROM python:3.11-slim-bookworm
COPY --from=build /src/dist/*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/*.whl)[hf,ray,s3,web]" && rm /tmp/*.whl \
    && useradd --create-home tokenmill
USER tokenmill
WORKDIR /data
ENTRYPOINT ["tokenmill"]
CMD ["--help"]
