package collect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
)

// RuleBlock classifies failures. Rules of the plan take precedence over the class that the worker
// reports and over the built-in rules. The first match applies.
type RuleBlock struct {
	Name string `hcl:"name,label" json:"name"`
	// Match is a regular expression over the message and the traceback (of long ones the first and the last 16 KiB).
	Match string `hcl:"match,optional" json:"match,omitempty"`
	// Exception is a regular expression over the exception's class or the signal. If match is set as well, both must
	// match.
	Exception string `hcl:"exception,optional" json:"exception,omitempty"`
	// Class is the failure class that the rule assigns, such as "transient" or "unsupported_config".
	Class string `hcl:"class" json:"class"`
}

// Rule is a compiled rule.
type Rule struct {
	Name             string
	match, exception *regexp.Regexp
	class            string
	oom              bool // retried on a fresh worker
}

// classes are the failure classes that a rule may assign.
var classes = []string{
	worker.ClassCollectorBug, worker.ClassUnsupportedConfig, worker.ClassFrameworkBug,
	worker.ClassResourceIssue, worker.ClassTransient, worker.ClassTimeout,
}

func compileRules(blocks []RuleBlock) ([]Rule, error) {
	var out []Rule
	for _, b := range blocks {
		if !slices.Contains(classes, b.Class) {
			return nil, fmt.Errorf("rule %q: class is %q; it must be one of %s", b.Name, b.Class, strings.Join(classes, ", "))
		}
		if b.Match == "" && b.Exception == "" {
			return nil, fmt.Errorf("rule %q: it needs match or exception, else it fits every failure", b.Name)
		}

		r := Rule{Name: b.Name, class: b.Class}
		for _, p := range []struct {
			name, text string
			to         **regexp.Regexp
		}{{"match", b.Match, &r.match}, {"exception", b.Exception, &r.exception}} {
			if p.text == "" {
				continue
			}
			re, err := regexp.Compile(p.text)
			if err != nil {
				return nil, fmt.Errorf("rule %q: %s: %w", b.Name, p.name, err)
			}
			*p.to = re
		}

		out = append(out, r)
	}

	return out, nil
}

// builtin are the rules for failures without a class. The order matters: a TypeError with the text
// "unsupported operand" is an error in the op's code.
var builtin = func() []Rule {
	rule := func(name, class, exception, match string) Rule {
		r := Rule{Name: name, class: class}
		if exception != "" {
			r.exception = regexp.MustCompile(exception)
		}
		if match != "" {
			r.match = regexp.MustCompile(`(?i)` + match)
		}
		return r
	}

	memory := func(exception, match string) Rule {
		r := rule("out of memory", worker.ClassResourceIssue, exception, match)
		r.oom = true
		return r
	}

	return []Rule{
		memory(`OutOfMemory|^MemoryError$`, ""),
		memory("", `out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|cannot allocate memory|std::bad_alloc|failed to allocate`),
		memory(`^SIGKILL$`, ""),
		rule("disk or descriptors", worker.ClassResourceIssue, "",
			`no space left on device|disk quota exceeded|too many open files|read-only file system`),
		rule("shared memory", worker.ClassResourceIssue, "",
			`out of resource|too many resources requested|exceeds.{0,40}shared memory`),
		rule("graph capture", worker.ClassResourceIssue, "",
			`stream ?capture|graph capture|operation not permitted when stream is capturing`),
		rule("uncorrectable memory error", worker.ClassResourceIssue, "", `uncorrectable ECC|CUDA_ERROR_ECC`),
		rule("the op's code", worker.ClassCollectorBug,
			`^(ImportError|ModuleNotFoundError|AttributeError|NameError|UnboundLocalError|TypeError|KeyError|IndexError|SyntaxError|IndentationError|FileNotFoundError|UnicodeDecodeError|ProtocolError)$`, ""),
		rule("no such kernel", worker.ClassUnsupportedConfig, `^(NotImplementedError|Unsupported)$`, ""),
		rule("no such kernel", worker.ClassUnsupportedConfig, "",
			`not supported|unsupported|no kernel image|not implemented for|requires (compute capability|sm_?\d|device with capability)|CUBLAS_STATUS_NOT_SUPPORTED|CUDNN_STATUS_NOT_SUPPORTED|no available kernel|no (valid|suitable) (kernel|tactic|config|engine|algorithm)|must be (divisible|a multiple)`),
		rule("device fault", worker.ClassFrameworkBug, `AcceleratorError|DSLCudaRuntimeError`, ""),
		rule("device fault", worker.ClassFrameworkBug, "",
			`illegal memory access|illegal instruction|illegal address|unspecified launch failure|misaligned address|device-side assert|CUBLAS_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)|CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED)`),
		rule("passing trouble", worker.ClassTransient,
			`^(ConnectionError|ConnectionResetError|ConnectionRefusedError|BrokenPipeError|BlockingIOError|InterruptedError)$`, ""),
		rule("passing trouble", worker.ClassTransient, "",
			`connection (reset|refused|aborted)|temporarily unavailable|resource busy|device or resource busy|stale file handle|text file busy|address already in use|remote process (has )?(exited|terminated)|unhandled system error`),
		rule("crash", worker.ClassFrameworkBug, `^(SIG[A-Z]+|signal \d+|exit status \d+)$`, ""),
	}
}()

// maxJudged is the number of bytes of a text that rules are matched against, half of them from its end.
// A worker may send hundreds of KiB for every case, and there are many rules.
const maxJudged = 32 << 10

func judgedText(s string) string {
	if len(s) <= maxJudged {
		return s
	}
	return s[:maxJudged/2] + "\n" + s[len(s)-maxJudged/2:]
}

func (r *Rule) fits(f *worker.Failure) bool {
	if r.exception != nil && !r.exception.MatchString(f.Exception) {
		return false
	}
	return r.match == nil || r.match.MatchString(f.Message) || r.match.MatchString(f.Traceback)
}

// classify returns the class of a failure and whether it is an out-of-memory failure, which may not
// occur again on a fresh worker. Unknown failures are attributed to the framework, because the plan
// requested the case.
func classify(rules []Rule, f *worker.Failure) (class string, oom bool) {
	f = &worker.Failure{Class: f.Class, Exception: f.Exception, Message: judgedText(f.Message),
		Traceback: judgedText(f.Traceback)}

	for i := range builtin {
		if builtin[i].oom && builtin[i].fits(f) {
			oom = true
			break
		}
	}

	for i := range rules {
		if rules[i].fits(f) {
			return rules[i].class, oom && rules[i].class == worker.ClassResourceIssue
		}
	}

	if slices.Contains(classes, f.Class) {
		return f.Class, oom && f.Class == worker.ClassResourceIssue
	}

	for i := range builtin {
		if builtin[i].fits(f) {
			return builtin[i].class, builtin[i].oom
		}
	}

	return worker.ClassFrameworkBug, false
}
