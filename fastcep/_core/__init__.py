"""The compiled engine, in folders by stage. Each imports only those before it:

``memory``, ``program``, ``input``, ``state``, ``shed``, ``matches``, ``snapshot``, ``factorised``, ``matcher``,
``fit``.
"""
