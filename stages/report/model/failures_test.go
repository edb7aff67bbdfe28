package model

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

func ledgerOf(t *testing.T, rows ...map[string]any) arrow.Record {
	t.Helper()
	b := table.NewBuilder(stage.LedgerSchema.Fields()...)
	for _, r := range rows {
		full := map[string]any{
			"case_id": "c", "params": `{"m":1}`, "status": "failed", "class": "framework_bug", "group": "",
			"type":    "RuntimeError",
			"message": "boom", "traceback": "", "attempts": 1, "worker": "w0", "device_uuid": "", "at": "",
		}
		for k, v := range r {
			full[k] = v
		}

		if err := b.Append(full); err != nil {
			t.Fatal(err)
		}
	}

	return b.Record()
}

func sources(t *testing.T) []StageLedger {
	return []StageLedger{
		{"collect.gemm", &stage.Dataset{Info: stage.Info{Op: "gemm"}, Ledger: ledgerOf(t,
			map[string]any{"case_id": "a", "params": `{"m":1,"dtype":"fp8"}`, "message": "illegal address 0x7f00 in kernel"},
			map[string]any{"case_id": "b", "params": `{"m":2,"dtype":"fp8"}`, "message": "illegal address 0x7e10 in kernel"},
			map[string]any{"case_id": "d", "status": "skipped", "class": "tripped", "message": "breaker"},
		)}},
		{"collect.moe", &stage.Dataset{Info: stage.Info{Op: "moe"}, Ledger: ledgerOf(t,
			map[string]any{"case_id": "e", "class": "resource_issue", "message": "needs 96.5 GiB, 80 are there"},
		)}},
		{"collect.empty", &stage.Dataset{Info: stage.Info{Op: "empty"}}},
	}
}

func TestFailuresAreGrouped(t *testing.T) {
	got, err := GroupFailures(sources(t), "failed", "op", "class", "message")
	if err != nil {
		t.Fatal(err)
	}

	if len(got) != 2 || got[0].Count != 2 || got[0].Value("message") != "illegal address # in kernel" ||
		got[0].Example.CaseID != "a" {
		t.Fatalf("groups: %+v", got)
	}

	if got[1].Value("op") != "moe" || got[1].Value("message") != "needs # GiB, # are there" {
		t.Errorf("second group: %+v", got[1])
	}

	if TotalFailures(got) != 3 {
		t.Errorf("total %d, want 3", TotalFailures(got))
	}

	got, err = GroupFailures(sources(t), "all", "status", "m")
	if err != nil || len(got) != 3 {
		t.Fatalf("by status and m: %+v, %v", got, err)
	}

	if _, err := GroupFailures(sources(t), "failed", "colour"); err == nil ||
		!strings.Contains(err.Error(), "dtype") {
		t.Errorf("an unknown column: %v", err)
	}

}

func TestMessagesWithOtherNumbersAreEqual(t *testing.T) {
	for in, want := range map[string]string{
		"CUDA error 700 at 0xdeadbeef":           "CUDA error # at #",
		"1x4353x2048 e4m3->bf16 (15)":            "# e4m3->bf16 (#)",
		"no fp8 kernels for sm90 on H200":        "no fp8 kernels for sm90 on H200",
		"cancelled 0.010s after 1.5GiB":          "cancelled #s after #GiB",
		"process 1234 died after 1.5e3 s\nagain": "process # died after # s again",
	} {
		if got := messagePattern(in); got != want {
			t.Errorf("messagePattern(%q) = %q, want %q", in, got, want)
		}
	}

	if got := paramText(`{"m":1,"n":9007199254740993,"d":"fp8"}`); got != "m=1 n=9007199254740993 d=fp8" {
		t.Errorf("Params: %q", got)
	}
}

func TestFailureGroupsFitTheTerminal(t *testing.T) {
	src := sources(t)
	src[1].Ledger = ledgerOf(t, map[string]any{"message": "a|b <c>\nsecond line",
		"params": `{"x":"` + strings.Repeat("long", 50) + `"}`})
	groups, err := GroupFailures(src, "failed", "op", "class", "message")
	if err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	if err := WriteFailuresMarkdown(&b, groups); err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(b.String(), `a\|b &lt;c> second line`) || strings.Count(b.String(), "\n") != 4 {
		t.Errorf("Markdown:\n%s", b.String())
	}

	b.Reset()

	for _, g := range groups {
		if err := g.WriteText(&b, 80, strings.Repeat("more ", 40), "aicplan apply"); err != nil {
			t.Fatal(err)
		}
	}

	for _, line := range strings.Split(b.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("line of %d columns: %s", len([]rune(line)), line)
		}
	}
}

// FuzzFailureText: messages and parameters come from workers, and may be anything.
func FuzzFailureText(f *testing.F) {
	f.Add("CUDA error 700 at 0xdead", `{"m":1}`)
	f.Add("\xff\x00", `{"a":{"b":[1,2]},`)
	f.Fuzz(func(t *testing.T, message, params string) {
		if once := messagePattern(message); messagePattern(once) != once {
			t.Errorf("messagePattern(%q) = %q, and again %q", message, once, messagePattern(once))
		}
		paramText(params)
	})
}

func TestNullParametersAreEmpty(t *testing.T) {
	t.Parallel()
	if got := paramText(`{"m":1,"nccl_algo":null,"n":2}`); got != "m=1 nccl_algo= n=2" {
		t.Errorf("%q", got)
	}
}
