# make run    build bin/aicplan and apply the quickstart on this machine's CPU
# make test   pass the tests
# make lint   gofmt, vet, staticcheck, and ruff over the Python worker where it is installed
# make cross  build for the platforms on which plans are read
# make bench  print the performance figures
# make gpu-check  build what a GPU machine needs and print the command to run there

# go-nvml's header marks old entry points; the warnings are not ours to fix.
export CGO_CFLAGS := -Wno-deprecated-declarations

GO ?= go

.PHONY: run test lint build cross bench gpu-check clean

run: build
	./bin/aicplan apply plans/quickstart.hcl

build:
	@mkdir -p bin
	$(GO) build -o bin/aicplan ./cmd/aicplan

# Vetting is lint's, and of everything.
test:
	$(GO) test -vet=off ./...

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@if command -v ruff >/dev/null; then ruff check --no-cache --config cudaops/pyhost/ruff.toml cudaops/pyhost/host; else echo "ruff is not installed: the Python worker was not linted (pip install ruff)"; fi

cross:
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 $(GO) build -o /dev/null ./cmd/aicplan
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/aicplan
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/aicplan

# Wall times of whole commands, then the parts. Ratios of one run count.
bench:
	$(GO) test ./cmd/aicplan -run '^$$' -bench 'Apply100k' -benchtime 2x
	$(GO) test ./cmd/aicplan -run '^$$' -bench 'Plan' -benchtime 5x
	$(GO) test ./engine/grid ./engine/plan ./engine/checkpoint ./sink/... -run '^$$' -bench . -benchtime 5x -benchmem

# Binaries for a machine with GPUs, Go or not: copy the folder and run the
# command that is printed. It checks numbers, timers, protocols, collectives and
# Python workers, and ends in one line, PASS or FAIL.
gpu-check:
	@mkdir -p bin/gpu-check
	$(GO) build -ldflags="-s -w" -o bin/gpu-check/aicplan ./cmd/aicplan
	for p in ops benchproto doctor probe comm pyhost; do $(GO) test -c -ldflags="-s -w" -o bin/gpu-check/$$p.test ./cudaops/$$p || exit 1; done
	rm -rf bin/gpu-check/src && mkdir -p bin/gpu-check/src/cudaops
	cp -r plans bin/gpu-check/src/plans
	for p in ops benchproto doctor probe comm pyhost; do cp -r cudaops/$$p bin/gpu-check/src/cudaops/$$p; done
	find bin/gpu-check/src -name '*.go' -delete
	cp cudaops/gpu-check.sh bin/gpu-check/run.sh
	@echo "On a machine with GPUs: sh bin/gpu-check/run.sh"

clean:
	rm -rf bin
