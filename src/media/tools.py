"""Tools for the model: look at a picture again."""

from src.llm.quoting import Runtime
from src.media.attachments import AttachmentService, LookOrder
from src.memory.turn_context import TurnContext
from src.texts import detect_language

TIMEOUT = 120.0  # seconds to download a picture and have a model examine it
LOOK = """\
Look again at a picture that the user sent. If the result says that seen is false, say so and \
answer from the description."""


async def look_at_picture(
    attachments: AttachmentService, runtime: Runtime, order: LookOrder
) -> dict[str, str | bool]:
    """Have a model look at a picture of the conversation, with a question in mind."""
    context: TurnContext = runtime.context
    language = detect_language(context.text, context.language)
    return await attachments.look_again(context.owner, context.conversation_id, order, language)
