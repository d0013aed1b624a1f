# make help lists the targets.

GO       ?= go
FUZZTIME ?= 30s
BENCH    ?= .

.DEFAULT_GOAL := help
.PHONY: help build test race emulators lint lint-openapi fuzz hostile soak bench gobench benchstat demo options-mutate image-test terraform-test telemetry-cost console-test console-screenshots

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## the static server, ./bin/server
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/server ./cmd/server

test: ## all tests; those of an absent emulator are skipped
	$(GO) test ./...

race: ## all tests with the race detector
	$(GO) test -race -timeout 40m ./...

emulators: ## all tests; an absent emulator fails them
	REQUIRE_EMULATORS=1 $(GO) test -count=1 ./...

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	staticcheck=$$($(GO) tool -n staticcheck) && cd bench && $(GO) vet ./... && $$staticcheck ./...

lint-openapi: ## the linter of openapi.yaml, pinned; needs Node 20
	bash .ci/openapi

fuzz: ## each fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) bash .ci/fuzz

hostile: ## each attack of hostile clients alone and all at once, beside good pushes, some 9 minutes
	HOSTILE=1 $(GO) test -count=1 -v -timeout 60m -run 'Hostile|Smuggling' ./internal/acceptance/

soak: ## the acceptance tests at full size, some 5 minutes
	SOAK=1 REQUIRE_EMULATORS=1 $(GO) test -count=1 -v -timeout 60m ./internal/acceptance/

bench: ## contenders side by side, some 10 minutes; writes docs/benchmarks.md. SCENARIO=, CONTENDERS=: prints some
	cd bench && $(GO) run . $(if $(SCENARIO)$(CONTENDERS),$(if $(SCENARIO),-scenario '$(SCENARIO)') $(if $(CONTENDERS),-contenders '$(CONTENDERS)'),-out ../docs/benchmarks.md) $(BENCHFLAGS)

gobench: ## Go benchmarks matching BENCH, of every layer
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

benchstat: ## the same held against the last release, or against commit BASE=; for information
	BENCH='$(BENCH)' BASE='$(BASE)' bash .ci/benchstat

demo: ## the emulators found here, real events, the console: until Ctrl-C
	$(GO) test -c -o bin/demo ./internal/acceptance/
	cd internal/acceptance && DEMO=1 REQUIRE_EMULATORS=1 ../../bin/demo -test.timeout 0 -test.run '^TestDemo$$'

options-mutate: ## force each option to its default: its test must fail; writes docs/options-proof.md
	OPTIONS_MUTATE=1 $(GO) test -count=1 -v -run '^TestOptionsMutate$$' ./cmd/server/

image-test: ## build the Dockerfile with buildah on stand-in bases, and run it; needs root
	IMAGE_TEST=1 REQUIRE_EMULATORS=1 $(GO) test -count=1 -v -timeout 25m ./internal/imagetest/

terraform-test: ## terraform validate and test, in the module and its examples; needs the provider (terraform init)
	@for dir in terraform terraform/examples/*; do terraform -chdir=$$dir fmt -check && terraform -chdir=$$dir validate && terraform -chdir=$$dir test || exit 1; done

telemetry-cost: ## measure what metrics and traces cost a push; writes docs/telemetry.md
	TELEMETRY_COST=1 $(GO) test -count=1 -v -run '^TestTelemetryCost$$' ./cmd/server/

console-test: ## the console in headless Chromium; needs Chromium, Node 20
	bash .ci/console

console-screenshots: ## docs/console-light.png and docs/console-dark.png, anew
	bash .ci/console docs
