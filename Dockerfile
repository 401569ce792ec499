FROM python:3.13-slim
ARG EXTRAS=""
COPY pyproject.toml README.md LICENSE /package/
COPY hackmatrix_rl /package/hackmatrix_rl
RUN pip install --no-cache-dir "/package${EXTRAS}"
WORKDIR /home
ENTRYPOINT ["hackmatrix-rl"]
