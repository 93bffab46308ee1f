# syntax=docker/dockerfile:1
# docker build -t autosched .
# docker run --rm -v "$PWD/logs:/data" autosched                         tunes ResNet-18 for 10 minutes
# docker run --rm -v "$PWD:/data" autosched tune model.onnx --budget 1h --log model.jsonl
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY autosched autosched
COPY sketch sketch
COPY costmodel costmodel
COPY codegen codegen
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# The OpenMP runtime of LightGBM and of the generated kernels; no compiler is needed.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN set -- /wheels/*.whl \
    && pip install --no-cache-dir "$1[onnx]" \
    && rm -r /wheels
# What is calibrated and compiled is kept in the user's folder.
RUN useradd --create-home autosched && install -d -o autosched /data
USER autosched
WORKDIR /data
VOLUME /data
ENTRYPOINT ["autosched"]
CMD ["tune", "resnet-18", "--budget", "10m", "--log", "resnet-18.jsonl"]
