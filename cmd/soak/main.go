// Command soak hurts aicplan and counts what it loses: it kills and stops its
// processes, fills its disk, damages its files, lies to it and feeds it mutated
// input, each time in folders of its own, and then asks whether a row that was
// acknowledged is lost or measured again and whether the exports are what an
// undisturbed run exports. It writes the table in docs/reliability.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"aicplan/stages/executors/slurmtest"
)

// options are the flags.
type options struct {
	binary string
	budget time.Duration
	seed   uint64
	jobs   int
	only   *regexp.Regexp
	write  string
	long   bool
	keep   bool
	shared []string
}

func main() {
	if name := filepath.Base(os.Args[0]); slices.Contains(slurmtest.Commands, name) {
		os.Exit(slurmtest.Main(name, os.Args[1:], os.Stdout, os.Stderr)) // see jobs
	}
	var o options
	var only, shared string
	flag.StringVar(&o.binary, "aicplan", "bin/aicplan", "the program under test")
	flag.DurationVar(&o.budget, "budget", 3*time.Minute, "how long to go on; every fault is tried once at least")
	flag.Uint64Var(&o.seed, "seed", 1, "of every random choice")
	flag.IntVar(&o.jobs, "jobs", 2, "trials at a time")
	flag.StringVar(&only, "only", ".", "try the faults whose name matches this regular expression")
	flag.StringVar(&o.write, "write", "", "write the table into this page, between its two marks")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders of trials that did not survive, and say where they are")
	flag.BoolVar(&o.long, "long", false, "try the faults that take long, too")
	flag.StringVar(&shared, "shared", "", "two mounts of one folder, such as an NFS export: DIR,DIR")
	list := flag.Bool("list", false, "list the faults and end")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Usage: go run ./cmd/soak [flags]

Tries faults against aicplan until the budget is over. Exit code 0: everything
survived; 1: something did not; 2: wrong flags.

Example: go run ./cmd/soak -only 'SIGKILL' -seed 7 -budget 1m

`)
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(only); err != nil || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if shared != "" {
		if o.shared = strings.Split(shared, ","); len(o.shared) != 2 {
			flag.Usage()
			os.Exit(2)
		}
	}
	if *list {
		for _, f := range all() {
			fmt.Println(f.name)
		}
		return
	}
	ok, err := soak(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// soak tries all faults in turn until the budget is over.
func soak(o options) (ok bool, err error) {
	if o.binary, err = exec.LookPath(o.binary); err != nil {
		return false, fmt.Errorf("%w; build it with make build, or name it with -aicplan", err)
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return false, err
	}
	home, err := os.MkdirTemp("", "aicplan-soak-")
	if err != nil {
		return false, err
	}
	defer func() {
		if !o.keep {
			os.RemoveAll(home)
		}
	}()
	b, err := newBench(o.binary, home)
	if err != nil {
		return false, err
	}
	b.shared = o.shared
	defer b.disks.close()
	var faults []*fault
	for _, f := range all() {
		if f.long && !o.long {
			f.skipped = "with -long only"
		}
		if o.only.MatchString(f.name) {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return false, fmt.Errorf("no fault matches; -list shows them")
	}
	begin := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), begin.Add(o.budget))
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, o.jobs))
	for round, more := 0, true; more && (round == 0 || ctx.Err() == nil); round++ {
		more = false
		for _, f := range faults {
			if round > 0 && (ctx.Err() != nil || f.once) || f.skipped != "" {
				continue
			}
			more = true
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				t := b.trial(fmt.Sprintf("%s.%d", slug(f.name), round), chance(o.seed, f.name, round))
				took := time.Now()
				f.do(t)
				t.clean()
				t.leftovers()
				mu.Lock()
				defer mu.Unlock()
				f.count(t, time.Since(took))
				if t.survived() {
					os.RemoveAll(t.dir)
					return
				}
				fmt.Printf("%s, trial %d of seed %d: %s\n", f.name, round, o.seed, t.troubles())
				if o.keep {
					fmt.Printf("  its folder: %s\n", t.dir)
				}
			})
		}
	}
	wg.Wait()
	table := render(faults, o, time.Since(begin))
	fmt.Print(table)
	if o.write != "" {
		if err := writePage(o.write, table); err != nil {
			return false, err
		}
	}
	for _, f := range faults {
		ok = ok || f.tried > 0
	}
	for _, f := range faults {
		if f.survived != f.tried {
			ok = false
		}
	}
	return ok, nil
}

// chance is the random source of one trial: the same for the same seed, fault
// and number, whatever else is tried.
func chance(seed uint64, name string, round int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, round)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
