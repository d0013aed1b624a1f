# The server as an image: one static binary on a base that has no shell.
#
#     docker build --build-arg VERSION=v1.2.3 -t pushsink .
#
# Both bases are named by version. To have builds that repeat to the bit, add the digests
# that these tags point to (docker buildx imagetools inspect NAME): NAME@sha256:…

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY . .
# Where modules come from, Go's own default if not given; a build without a network sets it to off or to file://….
ARG GOPROXY
# What server -version and the logs say.
ARG VERSION=devel
# The caches are mounts: they make a second build short and are in no layer. There is no
# .git here, so the version is not Go's to find.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags="-s -w -X main.release=${VERSION}" -o /out/server ./cmd/server

# Certificates, time zones and the user nonroot (65532); nothing that could run but ours.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/server /server
# Nothing is ever written: the root file system may be read-only.
USER nonroot:nonroot
EXPOSE 8080
# Exec form: the server is process 1, and SIGTERM reaches it.
ENTRYPOINT ["/server"]
