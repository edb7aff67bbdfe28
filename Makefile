# `make` alone builds aicplan and applies the quickstart; `make help` lists the
# targets.

# go-nvml's header marks old entry points; the warnings are not ours to fix.
export CGO_CFLAGS := -Wno-deprecated-declarations

GO ?= go

# Writing debug information takes a fifth of the compiler's time. Every target leaves
# it out, so that none compiles again what another has compiled; stack traces and
# profiles need none. For a debugger: go build -o bin/aicplan ./cmd/aicplan
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -gcflags=all=-dwarf=false)

# The compiler ends before its heap is worth collecting. Tests run longer: a larger
# heap than Go's own choice saves up to a third of the time of those that read all
# plans. (With -exec, which could set it for tests, Go keeps no results of tests.)
COMPILER := -toolexec "env GOGC=off GOMEMLIMIT=1GiB"
FASTER := GOGC=$${GOGC:-400}
# Tests that wait for processes leave a core idle: one package more than there are
# cores is built or tested at a time.
TEST := $(FASTER) $(GO) test $(COMPILER) -vet=off
TESTS := $(TEST) -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) -parallel 8

# make fuzz: how long each target runs, and which (a regular expression).
FUZZTIME ?= 30s
FUZZ ?= .
# Inputs that reach new code are made smaller first, a minute each unless told
# otherwise: that took nearly all of the time.
FUZZMINIMIZE ?= 100x
# make soak: the seed of its random choices.
SEED ?= 1
# make golden: the packages whose expectations are recorded anew, and the tests
# that record: those of the files that read the flag.
GOLDENTESTS := ^($$(grep -rl --include='*_test.go' '[*]update' . | xargs sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' | sort -u | paste -sd'|' -))\$$
PKG ?= $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | grep -v "cudaops/ops\$$" | sort -u)
# make bench: where the figures go, and how often each is taken. benchstat needs
# six of each to tell a change from noise. BENCHTIME: how many iterations a figure of the parts has.
BENCH ?= bin/bench.txt
COUNT ?= 1
BENCHTIME ?= 5x
# make vuln and make gosec; the rules are those that say something about a program
# that reads strangers' files, serves pages and checks digests.
GOVULNCHECK ?= $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4
GOSEC ?= $(GO) run github.com/securego/gosec/v2/cmd/gosec@v2.22.4
GOSECRULES ?= G102,G106,G110,G112,G114,G305,G401,G402,G403,G501,G502,G503,G504,G505,G506,G601
BENCHSTAT ?= $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# What aicplan --version prints: the commit, with + if files were changed.
COMMIT := -X main.commit=$(shell git describe --always --abbrev=12 --dirty=+ 2>/dev/null)
# make install: where to.
PREFIX ?= /usr/local
# make release: for which platforms, and where to.
RELEASES ?= linux/amd64 linux/arm64
DIST ?= bin/release
# make cross: for which platforms.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64

.PHONY: run install release image test test-all test-race contract-consumer lint vuln gosec build cross bench bench-parts bench-compare bench-numpy fuzz golden reference site soak soak-short gpu-check upstream-check bench-hosted clean help

run: build ## build bin/aicplan and apply the quickstart on this machine's CPU
	./bin/aicplan apply plans/quickstart.hcl
	@echo
	@echo "What this CPU reaches:"
	@echo
	./bin/aicplan show 'module.measured["gemm"].gate.op' --format table --sort gflop_per_s:desc --limit 3 --columns gemm_dtype,m,n,k,kernel_source,latency,gflop_per_s
	@echo
	./bin/aicplan show 'module.measured["memory"].gate.op' --format table --sort gb_per_s:desc --limit 3 --columns kernel,size_bytes,latency,gb_per_s
	@echo
	@echo "All of it on one page: out/report.html"

# SQLite is the largest package, and the packages that import it are compiled one
# after the other: Go begins with the first argument.
build: ## build bin/aicplan
	@mkdir -p bin
	$(FASTER) $(GO) build $(COMPILER) -ldflags="-w $(COMMIT)" -o bin/ github.com/ncruces/go-sqlite3 ./cmd/aicplan

install: build ## install the program, man page and completion below PREFIX (/usr/local)
	install -D bin/aicplan $(DESTDIR)$(PREFIX)/bin/aicplan
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	mkdir -p $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	bin/aicplan completion man > $(DESTDIR)$(PREFIX)/share/man/man1/aicplan.1
	bin/aicplan completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/aicplan
	bin/aicplan completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_aicplan
	bin/aicplan completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/aicplan.fish

release: build ## write archives with the program, plans and man page for RELEASES, and their checksums, to DIST
	rm -rf $(DIST) && mkdir -p $(DIST)
	for p in $(RELEASES); do n=aicplan-$$(bin/aicplan --version | cut -d' ' -f2)-$${p%/*}-$${p#*/}; \
		cc=$$($(GO) env CC); case $${p#*/} in $$($(GO) env GOARCH)) ;; amd64) cc=x86_64-linux-gnu-gcc ;; arm64) cc=aarch64-linux-gnu-gcc ;; esac; \
		command -v $$cc >/dev/null || { echo "$$p needs $$cc, because NVML is called through C; install it, or choose platforms: make release RELEASES=linux/amd64" >&2; exit 1; }; \
		mkdir $(DIST)/$$n && CGO_ENABLED=1 CC=$$cc GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags="-s -w $(COMMIT)" -o $(DIST)/$$n/aicplan ./cmd/aicplan && \
		bin/aicplan completion man > $(DIST)/$$n/aicplan.1 && cp -r LICENSE README.md plans $(DIST)/$$n && \
		tar -C $(DIST) --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf $(DIST)/$$n.tar.gz $$n && rm -r $(DIST)/$$n || exit 1; done
	cd $(DIST) && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

image: ## build the container image aicplan from the Containerfile
	$(or $(CONTAINER),docker) build -f Containerfile -t aicplan .

# Vetting is lint's, and of everything. Many tests wait for processes and files:
# more of them than there are cores run at the same time.
test: ## run the tests
	$(TESTS) $(if $(AICPLAN_TEST_ALL),-timeout 30m -skip '$(SLURMTESTS)') ./...
	$(if $(AICPLAN_TEST_ALL),$(TESTS) -run '$(SLURMTESTS)' ./cmd/aicplan ./cudaops/comm)
	@echo "All packages pass. make test-all runs, besides, what repeats these checks at length: long campaigns of faults, a real Slurm, all backends on all generations of GPUs."

# A real Slurm ends jobs that do not answer in time, so nothing else runs beside it.
SLURMTESTS := ^(TestRealSlurm|TestRanksOverSlurm)$$
test-all: ## run the tests, and repeat their checks at length
	AICPLAN_TEST_ALL=1 $(MAKE) --no-print-directory test

# Code in which goroutines meet. The other stages start none, and no package has global state.
RACE := ./engine/... ./cudaops/worker/... ./cudaops/measure/... $(addprefix ./stages/,collect/... executors publish report/live runtimes telemetry verify)
test-race: ## run the tests of code in which goroutines meet with the race detector
	AICPLAN_TEST_ALL=1 $(TESTS) -race -short $(RACE)

# The release whose answers cmd/aicplan/contract/testdata/consumer.json has, in a
# virtual environment that is kept.
CONSUMER := aiconfigurator==0.12.0
bin/consumer/installed:
	$(or $(PYTHON),python3) -m venv bin/consumer
	bin/consumer/bin/pip -q --disable-pip-version-check install $(CONSUMER)
	@touch $@

contract-consumer: bin/consumer/installed ## compare what the real aiconfigurator answers from its tables and from our exports of them
	AICPLAN_CONTRACT_PYTHON=$(CURDIR)/bin/consumer/bin/python $(TESTS) -run '^TestConsumer$$' ./cmd/aicplan/contract

lint: ## gofmt, vet, staticcheck, and ruff over the Python where it is installed
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(FASTER) $(GO) vet $(COMPILER) ./...
	$(FASTER) $(GO) tool staticcheck ./...
	@if command -v ruff >/dev/null; then ruff check --no-cache --config cudaops/pyhost/ruff.toml cudaops/pyhost/host cudaops/pyhost/upstream plans; else echo "ruff is not installed: the Python was not linted (pip install ruff)"; fi

vuln: ## known vulnerabilities of what the program uses (asks the database of Go), and the digests of all modules
	$(GO) mod verify
	$(GOVULNCHECK) ./cmd/aicplan

# gosec loads each package for itself, which takes it seconds. Packages that import none of
# what the rules are about have nothing to find.
GOSECIMPORTS := net|net/http.*|archive/.*|compress/.*|crypto/(md5|sha1|des|rc4|tls|rsa)|golang.org/x/crypto/.*
GOSECPACKAGES = $$($(GO) list -f '{{range .Imports}}{{$$.Dir}} {{.}}{{"\n"}}{{end}}' ./... | grep -E ' ($(GOSECIMPORTS))$$' | cut -d' ' -f1 | sort -u)
gosec: ## lint for security: weak digests, servers without time limits, archives that leave their folder and the like
	$(FASTER) $(GOSEC) -quiet -exclude-generated -include=$(GOSECRULES) $(GOSECPACKAGES)

# The result is not used: compiling without optimizing takes a third less.
cross: ## build for the platforms on which plans are read; PLATFORMS="os/arch ..." chooses
	@for p in $(PLATFORMS); do echo "CGO_ENABLED=0 $$p"; CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} \
		$(FASTER) $(GO) build $(COMPILER) -gcflags='all=-dwarf=false -N -l' -o /dev/null ./cmd/aicplan || exit 1; done

# Wall times of whole commands, then the parts. What is compared are two files:
# make bench-compare OLD=before.txt NEW=bin/bench.txt
bench: ## write the performance figures to BENCH (bin/bench.txt), COUNT times each
	@mkdir -p $(dir $(BENCH)) && rm -f $(BENCH)
	$(GO) test ./cmd/aicplan -run '^$$' -bench 'Scale|Stages' -benchtime 1x -timeout 60m --count $(COUNT) >> $(BENCH) || { cat $(BENCH); exit 1; }
	$(GO) test ./cmd/aicplan -run '^$$' -bench 'Plan' -benchtime 5x --count $(COUNT) >> $(BENCH) || { cat $(BENCH); exit 1; }
	@$(MAKE) --no-print-directory bench-parts

# The packages of the engine, sink and workers that have benchmarks.
BENCHMARKS = $$(grep -rl --include='*_test.go' '^func Benchmark' engine sink cudaops/pyhost cudaops/trace cudaops/worker | xargs -n1 dirname | sort -u | sed 's,^,./,')
bench-parts: ## the figures of the parts only, added to BENCH
	@mkdir -p $(dir $(BENCH))
	$(GO) test $(COMPILER) -vet=off $(BENCHMARKS) -run '^$$' -bench . -benchtime $(BENCHTIME) -benchmem -count $(COUNT) >> $(BENCH) || { cat $(BENCH); exit 1; }
	@cat $(BENCH) && echo "Written to $(BENCH)."

# make bench-serving AIPERF=venv/bin/aiperf: at most ten minutes on a machine without other work. It needs a C
# compiler (CC). The table with the bounds is in bin/bench-serving.md; the exit code is 0 if all are reached.
bench-serving: build ## serving load beside AIPerf (AIPERF=PROGRAM) and a minimal epoll client
	AIPERF="$(AIPERF)" CC="$(CC)" cudaops/load/bench-serving.py bin/aicplan -o bin/bench-serving.md

bench-numpy: build ## how well rows of this CPU repeat, beside numpy in the same minutes (NUMPY=PYTHON that has it)
	$(or $(NUMPY),python3) cudaops/cpu/bench-numpy.py bin/aicplan

bench-compare: ## compare the figures of OLD with those of NEW (bin/bench.txt)
	@test -n "$(OLD)" || { echo "make bench-compare OLD=FILE [NEW=FILE]: say which file of make bench to compare with"; exit 2; }
	$(BENCHSTAT) $(OLD) $(or $(NEW),$(BENCH))

fuzz: ## fuzz every target for FUZZTIME (30s) each; FUZZ=REGEXP chooses
	@set -e; for f in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$f); do \
		echo "$$(dirname $$f) $$t" | grep -Eq '$(FUZZ)' || continue; \
		echo "== $$(dirname $$f) $$t"; $(GO) test $$(dirname $$f) -run '^$$' -fuzz "^$$t\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMINIMIZE); done; done

SOAK = AICPLAN_CONTRACT_BIN=$(CURDIR)/bin/aicplan $(TEST) ./cmd/aicplan/contract -v -run '^TestSoak$$' -timeout 3h -seed $(SEED)

soak: build ## run fault trials for an hour after fuzzing (docs/results/reliability.md); SEED=N
	$(MAKE) --no-print-directory fuzz FUZZTIME=5m
	$(SOAK) -soak 1h

soak-short: build ## run fault trials for a minute; SEED=N
	$(SOAK) -soak 1m

# core.ptx is not among them: it is written where NVRTC is, see its header.
golden: ## record what tests expect anew, after a wanted change; PKG=./a/package chooses
	AICPLAN_TEST_ALL=1 $(TESTS) -timeout 30m -run "$(GOLDENTESTS)" $(PKG) -update
	@git diff --stat

reference: ## write the tables and command pages of docs/reference
	$(TESTS) -run '^TestReferenceIsCurrent$$' ./cmd/aicplan -update

# The generator of the site, in a virtual environment that is kept. It checks links and anchors.
SITE := mkdocs-material==9.8.2
bin/sitegen/installed:
	$(or $(PYTHON),python3) -m venv bin/sitegen
	bin/sitegen/bin/pip -q --disable-pip-version-check install $(SITE)
	@touch $@

site: bin/sitegen/installed ## build docs/ with a search into bin/site (mkdocs-material, by pip)
	NO_MKDOCS_2_WARNING=1 bin/sitegen/bin/mkdocs build --strict

# Binaries for a machine with GPUs, Go or not: copy the folder and run the
# command that is printed. It checks numbers, timers, operating points, collectives and
# Python workers, and ends in one line, PASS or FAIL.
gpu-check: ## build what a GPU machine needs and print the command to run there
	@mkdir -p bin/gpu-check
	$(GO) build -ldflags="-s -w" -o bin/gpu-check/aicplan ./cmd/aicplan
	for p in ops doctor comm pyhost; do $(GO) test -c -ldflags="-s -w" -o bin/gpu-check/$$p.test ./cudaops/$$p || exit 1; done
	rm -rf bin/gpu-check/src && mkdir -p bin/gpu-check/src/cudaops
	cp -r plans bin/gpu-check/src/plans
	for p in ops doctor comm pyhost; do cp -r cudaops/$$p bin/gpu-check/src/cudaops/$$p; done
	find bin/gpu-check/src -name '*.go' -delete
	cp cudaops/gpu-check.sh bin/gpu-check/run.sh
	@echo "On a machine with GPUs: sh bin/gpu-check/run.sh"

# Python 3.10 or later with PyYAML and packaging; no framework and no GPU. FLAGS
# are those of the program: --json, -op NAME, -cases N, -keep DIR.
PYTHON ?= python3
upstream-check: build ## run the collectors of CHECKOUT (aiconfigurator) on stand-ins of their frameworks
	@test -n "$(CHECKOUT)" || { echo "make upstream-check CHECKOUT=DIR [FLAGS=--json]: say which checkout of aiconfigurator to run"; exit 2; }
	$(PYTHON) cudaops/pyhost/upstream/check.py $(FLAGS) bin/aicplan $(CHECKOUT)

bench-hosted: build ## on a GPU: compare rows and rate of OP with the own benchmark of CHECKOUT's collectors for BACKEND
	@test -n "$(CHECKOUT)" -a -n "$(BACKEND)" -a -n "$(OP)" || { echo "make bench-hosted CHECKOUT=DIR BACKEND=vllm OP=gemm [FLAGS='--truth 100']"; exit 2; }
	$(PYTHON) cudaops/pyhost/upstream/bench.py bin/aicplan $(CHECKOUT) $(BACKEND) $(OP) $(FLAGS)

clean: ## remove bin
	rm -rf bin

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/' | while IFS="$$(printf '\t')" read -r t d; do printf 'make %-14s %s\n' "$$t" "$$d"; done

