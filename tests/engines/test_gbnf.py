"""xgrammar reads GBNF as its own EBNF, which is how constraints reach FastDeploy."""

import pytest

import unspool
from tests.grammar.test_gbnf import CALLS, TOOLS, constraint, turn
from unspool import Dialect
from unspool.grammar.gbnf import gbnf

from .generation import EOS
from .support import WITH_CALLS, byte_tokenizer

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("d", WITH_CALLS, ids=lambda d: d.name)
def test_xgrammar_accepts_rendered_messages(d: Dialect) -> None:
    import xgrammar

    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(byte_tokenizer()))
    compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(gbnf(constraint(d).grammar)))
    for call in CALLS:
        message = turn(d, call)
        matcher = xgrammar.GrammarMatcher(compiled)
        for byte in unspool.render(message, d, tools=TOOLS, stage="content").encode():
            assert matcher.accept_token(byte), (call, byte)
        assert matcher.accept_token(EOS)
